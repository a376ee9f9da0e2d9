"""Logins at the gateway as an authorization server: the SDKs' clients, and the flows of claude.ai and ChatGPT step by step.

The URLs and the metadata of the two services are those that they published in November 2026. Their own documents cannot be
fetched here, so claude.ai is a client of the file under its id, and the document of ChatGPT is published by this test.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from client_host import Document, SigningKey, client_host
from issuer import CHATGPT, CLAUDE, ENDPOINT, TOOL, HandClient, Site, error_of, issuing, new_keys, parsed, send, settled
from lab import HERE, NOTES, Browser, Caller, Lab, Page, callback, check, free_port, listening_port, text_of
from proxy import PREFIX, proxy

#: The client of each SDK: its program, and its file.
SDKS = {"python": ("peer-python", "python_sdk.py"), "typescript": ("peer-node", "typescript_sdk.mjs")}
#: The id of claude.ai, which is the URL of its document.
CLAUDE_ID = "https://claude.ai/oauth/mcp-oauth-client-metadata"
#: The id of Claude Code, likewise.
CLAUDE_CODE_ID = "https://claude.ai/oauth/claude-code-client-metadata"
#: The redirect URI of one connection of ChatGPT, which it uses where an authorization server does not name itself.
CHATGPT_CONNECTION = "https://chatgpt.com/connector/oauth/AbCdEfGh1234"
#: The redirect URIs of other clients, as they register them.
OTHERS = {
    "Claude Code": "http://localhost:51234/callback",
    "VS Code": "http://127.0.0.1:33418/",
    "VS Code on the web": "https://vscode.dev/redirect",
    "Cursor": "cursor://anysphere.cursor-mcp/oauth/callback",
    "Warp": "warp://mcp/oauth2callback",
    "Raycast": "raycast://oauth?package_name=mcp",
    "the inspector": "http://localhost:6274/oauth/callback",
}


# The SDKs ---------------------------------------------------------------------------------------


def run_sdk(lab: Lab, site: Site, sdk: str, end: str, steps: list[str], password: str = "", **more: str) -> Any:
    """Runs the client of an SDK, which takes `steps` at the endpoint of the server; what it found."""
    program, file = SDKS[sdk]
    ask = {
        "url": f"{site.base}{ENDPOINT}", "callback": end, "account": "ann", "tool": TOOL, "mode": "auto",
        "browser": [sys.executable, str(HERE.parent / "lab" / "browser.py")], "steps": steps, **more,
    }  # fmt: skip
    return lab.client(program, file, ask, password)


def _logs_in(lab: Lab, site: Site, sdk: str, document: str | None, end: str) -> None:
    """Logs in, calls, renews a token, calls, is revoked, and logs in again."""
    more = {"document": document} if document else {}
    steps = ["call", "refresh", "call", "revoke", "call"]
    found = run_sdk(lab, site, sdk, end, steps, site.keys["ann"], **more)
    site.secrets += found["secrets"]
    check(found["text"] == NOTES["machine"] and not found["failed"], f"the {sdk} client got {found}")
    check(TOOL in found["tools"], f"the {sdk} client lists {found['tools']}")
    check(len(found["urls"]) == 2, f"the {sdk} client opened {len(found['urls'])} URLs; 2 logins are needed")
    # Two logins and one renewal have two tokens each.
    check(len(set(found["secrets"])) == 6, f"the {sdk} client has {len(set(found['secrets']))} different tokens")


def sdk_clients_register_and_log_in(lab: Lab) -> None:
    with issuing(lab, "sdk_registers") as site, callback() as end:
        for sdk in SDKS:
            _logs_in(lab, site, sdk, None, end)


def sdk_clients_with_a_document_log_in(lab: Lab) -> None:
    with client_host(lab.out / "documents") as host, callback() as end:
        own = {"keys": True, "registration": False, "trusted_hosts": [host.name]}
        with issuing(lab, "sdk_documents", own, {"SSL_CERT_FILE": str(host.ca)}) as site:
            check("registration_endpoint" not in site.metadata(), "registration is off, and the metadata names it")
            for sdk in SDKS:
                # The document names no port, and the client listens at one that it chose.
                document = host.publish(f"/{sdk}.json", ["http://127.0.0.1/callback"])
                _logs_in(lab, site, sdk, document, end)
            fetched = {path: host.requested.count(path) for path in set(host.requested)}
            check(fetched == {f"/{sdk}.json": 1 for sdk in SDKS}, f"the documents were fetched {fetched}")


def sdk_clients_log_in_below_a_path_prefix(lab: Lab) -> None:
    """The gateway is behind a proxy with a path prefix, whose rules are those of the page."""
    port, outside = free_port(), free_port()
    base = f"http://localhost:{outside}{PREFIX}"
    with issuing(lab, "prefix", port=port, public_url=base) as site, proxy(outside, port) as requested, callback() as end:
        for sdk in SDKS:
            _logs_in(lab, site, sdk, None, end)
        inserted = f"/.well-known/oauth-authorization-server{PREFIX}"
        check(inserted in requested, f"no client asked for {inserted}: {sorted(set(requested))}")
        # Clients that do not read the address from the 401 insert the prefix here too.
        for path in (f"/.well-known/oauth-protected-resource{PREFIX}{ENDPOINT}", f"{PREFIX}/.well-known/oauth-protected-resource{ENDPOINT}"):
            page = send("GET", f"http://localhost:{outside}{path}")
            check(parsed(page).get("resource") == f"{base}{ENDPOINT}", f"{path} is answered with {page.status}: {page.text}")
        for path in (f"{PREFIX}/.well-known/openid-configuration", f"/.well-known/openid-configuration{PREFIX}"):
            page = send("GET", f"http://localhost:{outside}{path}")
            check(parsed(page).get("issuer") == base, f"{path} is answered with {page.status}: {page.text}")


# The services -----------------------------------------------------------------------------------


def _discovers(site: Site, agent: str, path: str) -> Any:
    """Steps 1 to 3 of every client: the refusal, the metadata of the endpoint, and that of the authorization server."""
    initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _initialize()}
    accept = {"accept": "application/json, text/event-stream", "user-agent": agent}
    refused = send("POST", f"{site.base}{path}", body=initialize, headers=accept)
    check(refused.status == 401, f"without a token {path} answers {refused.status}: {refused.text}")
    challenge = refused.headers.get("www-authenticate", "")
    named = re.search(r'resource_metadata="([^"]+)"', challenge)
    check(named, f"the challenge is {challenge}")
    check('scope="' in challenge, f"the challenge names no scope: {challenge}")
    resource = send("GET", named[1])
    check(resource.status == 200, f"{named[1]} answers {resource.status}")
    check(parsed(resource)["resource"] == f"{site.base}{path}", f"the resource is {parsed(resource)['resource']}")
    check(parsed(resource)["authorization_servers"] == [site.base], f"the servers are {parsed(resource)}")
    metadata = site.metadata()
    check(metadata["issuer"] == site.base, f"the issuer is {metadata['issuer']}")
    check("none" in metadata["token_endpoint_auth_methods_supported"], "a public client has no method")
    check(metadata["client_id_metadata_document_supported"] is True, "no client with a document can log in")
    check(metadata["authorization_response_iss_parameter_supported"] is True, "ChatGPT takes another redirect URI")
    check(metadata["code_challenge_methods_supported"] == ["S256"], "PKCE is not S256")
    for path_of_openid in ("/.well-known/openid-configuration",):
        again = send("GET", f"{site.base}{path_of_openid}")
        check(again.status == 200 and parsed(again) == metadata, f"{path_of_openid} answers {again.status}")
    return metadata


def _initialize() -> dict[str, Any]:
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "service", "version": "1"}}


def _ends_at(client: HandClient, browser: Browser) -> str:
    """The person signs in and agrees; the code that the service receives."""
    return client.code_at(browser.visit(client.url()).url)


def _uses(site: Site, client: HandClient, redeemed: Page, path: str = ENDPOINT) -> str:
    """Steps after the login: a session of the older revision as both services begin one, tools, and a renewal."""
    check(redeemed.status == 200, f"the code is answered with {redeemed.status}: {redeemed.text}")
    check("no-store" in redeemed.headers.get("cache-control", ""), f"tokens may be cached: {redeemed.headers}")
    tokens = parsed(redeemed)
    check(tokens["token_type"] == "Bearer" and tokens["expires_in"] == 600, f"the answer is {sorted(tokens)}")
    _begins_a_session(site, tokens["access_token"], path)
    renewed = client.refresh(tokens["refresh_token"], resource=client.resource)
    check(renewed.status == 200, f"a renewal is answered with {renewed.status}: {renewed.text}")
    check(parsed(renewed)["refresh_token"] != tokens["refresh_token"], "the refresh token works twice")
    _begins_a_session(site, parsed(renewed)["access_token"], path)
    return str(parsed(renewed)["access_token"])


def _begins_a_session(site: Site, token: str, path: str) -> None:
    fields = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}

    def ask(message: dict[str, Any]) -> Page:
        return send("POST", f"{site.base}{path}", body={"jsonrpc": "2.0", **message}, headers=fields)

    begun = ask({"id": 1, "method": "initialize", "params": _initialize()})
    check(begun.status == 200, f"initialize is answered with {begun.status}: {begun.text}")
    fields |= {"mcp-session-id": begun.headers.get("mcp-session-id", ""), "mcp-protocol-version": "2025-11-25"}
    check(ask({"method": "notifications/initialized"}).status == 202, "the session does not begin")
    listed = ask({"id": 2, "method": "tools/list"})
    check(listed.status == 200 and TOOL in listed.text, f"the tools are {listed.status} {listed.text}")
    result = ask({"id": 3, "method": "tools/call", "params": {"name": TOOL, "arguments": {}}})
    check(NOTES["machine"] in result.text, f"the call is answered with {result.status} {result.text}")


def claude_ai_logs_in_with_its_document(lab: Lab) -> None:
    entry = {"id": CLAUDE_ID, "name": "Claude", "redirect_uris": [CLAUDE]}
    with issuing(lab, "claude", {"keys": True, "clients": [entry]}) as site:
        for path in (ENDPOINT, "/mcp"):
            _discovers(site, "Claude-User", path)
            client = HandClient(site, CLAUDE_ID, CLAUDE, resource=f"{site.base}{path}", scope="mcp:read mcp:call")
            browser = site.browser("ann")
            _uses(site, client, client.redeem(_ends_at(client, browser)), path)
            # The service connects again, and the person has agreed before.
            before = len(browser.pages)
            _uses(site, client, client.redeem(_ends_at(client, browser)), path)
            check(len(browser.pages) - before == 2, "a person who agreed is asked again")


def claude_ai_registers_and_logs_in(lab: Lab) -> None:
    with issuing(lab, "claude_registers") as site:
        _discovers(site, "Claude-User", ENDPOINT)
        for method in ("none", "client_secret_post"):
            page = site.register(
                [CLAUDE], client_name="Claude", client_uri="https://claude.ai", token_endpoint_auth_method=method,
                grant_types=["authorization_code", "refresh_token"], response_types=["code"], scope="claudeai",
            )  # fmt: skip
            found = parsed(page)
            check(page.status == 201 and found["redirect_uris"] == [CLAUDE], f"{page.status} {page.text}")
            check(found["token_endpoint_auth_method"] == "none", f"the method is {found['token_endpoint_auth_method']}")
            check("no-store" in page.headers.get("cache-control", ""), "a registration may be cached")
            client = HandClient(site, found["client_id"], CLAUDE, scope="mcp:call")
            _uses(site, client, client.redeem(_ends_at(client, site.browser("ann"))))
            check(site.call(client.log_in("ben")["access_token"]) == 200, "a second person cannot log in")


def chatgpt_logs_in_with_its_document(lab: Lab) -> None:
    with client_host(lab.out / "chatgpt") as host:
        key = SigningKey(lab.out / "chatgpt")
        host.answer("/oauth/jwks.json", _json({"keys": [key.public()]}))
        document = host.publish(
            "/oauth/client.json", [CHATGPT], client_name="ChatGPT", client_uri="https://chatgpt.com/",
            token_endpoint_auth_method="private_key_jwt", token_endpoint_auth_methods_supported=["none", "private_key_jwt"],
            token_endpoint_auth_signing_alg="RS256", jwks_uri=host.url("/oauth/jwks.json"),
            logo_uri="https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
        )  # fmt: skip
        own = {"keys": True, "trusted_hosts": [host.name]}
        with issuing(lab, "chatgpt", own, {"SSL_CERT_FILE": str(host.ca)}) as site:
            metadata = _discovers(site, "openai-mcp/1.0.0", ENDPOINT)
            algorithms = metadata["token_endpoint_auth_signing_alg_values_supported"]
            check("RS256" in algorithms, f"the algorithms are {algorithms}")
            client = HandClient(site, document, CHATGPT, scope="mcp:read mcp:call offline_access")
            code = _ends_at(client, site.browser("ann"))
            kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

            def proof(audience: str = site.base, **claims: Any) -> dict[str, str]:
                text = key.assertion(document, audience, **claims)
                site.secrets.append(text)
                return {"client_assertion_type": kind, "client_assertion": text}

            for wrong in ({}, proof("https://other.example"), proof(sub="other"), proof(exp=1)):
                refused = client.redeem(code, **wrong)
                check(error_of(refused) == "invalid_client", f"{refused.status} {refused.text}")
            redeemed = client.redeem(code, **proof())
            check(redeemed.status == 200, f"{redeemed.status} {redeemed.text}")
            _begins_a_session(site, parsed(redeemed)["access_token"], ENDPOINT)
            token = parsed(redeemed)["refresh_token"]
            check(error_of(client.refresh(token)) == "invalid_client", "a renewal needs no proof")
            renewed = client.refresh(token, **proof(metadata["token_endpoint"]))
            check(renewed.status == 200, f"{renewed.status} {renewed.text}")


def chatgpt_registers_and_logs_in(lab: Lab) -> None:
    with issuing(lab, "chatgpt_registers") as site:
        _discovers(site, "openai-mcp/1.0.0", "/mcp")
        for uri in (CHATGPT, CHATGPT_CONNECTION):
            page = site.register(
                [uri], client_name="ChatGPT", token_endpoint_auth_method="none",
                grant_types=["authorization_code", "refresh_token"], response_types=["code"],
            )  # fmt: skip
            check(page.status == 201, f"{uri}: {page.status} {page.text}")
            client = HandClient(site, parsed(page)["client_id"], uri, resource=f"{site.base}/mcp", scope="mcp:call offline_access")
            _uses(site, client, client.redeem(_ends_at(client, site.browser("ann"))), "/mcp")


def other_clients_log_in(lab: Lab) -> None:
    with issuing(lab, "other_clients") as site, callback() as end:
        port = end.split(":")[2].split("/")[0]
        for name, uri in OTHERS.items():
            page = site.register([uri], client_name=name, token_endpoint_auth_method="none")
            check(page.status == 201, f"{name}: {page.status} {page.text}")
            # A client on this machine listens at another port each time.
            moved = re.sub(r"^(http://[^:/]+):\d+", rf"\1:{port}", uri)
            client = HandClient(site, parsed(page)["client_id"], moved)
            code = _ends_at(client, site.browser("ann"))
            check(site.call(parsed(client.redeem(code))["access_token"]) == 200, f"{name} cannot call")


def claude_code_logs_in(lab: Lab) -> None:
    """Runs the program itself, under the id of its document, which is an entry of the file here."""
    claude = lab.peers.bin / "claude"
    if not claude.exists():
        print("      NOTICE: Claude Code is not installed (SWITCHYARD_PEERS_WITHOUT=claude): its login was NOT tested")
        return
    home = lab.out / "claude_home"
    home.mkdir(exist_ok=True)
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE.parent / "lab" / "browser.py"}" "$1" decision=allow\n')
    browser.chmod(0o700)
    entry = {"id": CLAUDE_CODE_ID, "name": "Claude Code", "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"]}
    with issuing(lab, "claude_code", {"keys": True, "clients": [entry]}) as site:
        env = {
            "PATH": lab.peers.env()["PATH"], "HOME": str(home), "TERM": "xterm", "BROWSER": str(browser),
            "BROWSER_PASSWORD": site.keys["ann"], "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # It reaches this machine and nothing else.
            "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost,127.0.0.1",
        }  # fmt: skip
        words = [str(claude), "mcp"]
        add = [*words, "add", "--transport", "http", "switchyard", f"{site.base}/mcp"]
        subprocess.run(add, env=env, cwd=home, capture_output=True, check=True, timeout=60)
        said = _in_a_terminal([*words, "login", "switchyard"], env, home)
        check("Authenticated" in said, f"the login says {said}")
        listed = subprocess.run([*words, "list"], env=env, cwd=home, capture_output=True, text=True, check=True, timeout=60)
        check("Connected" in listed.stdout and "Failed" not in listed.stdout, f"the list says {listed.stdout}")
        grants = [line for line in site.log.read_text().splitlines() if '"grant"' in line and CLAUDE_CODE_ID in line]
        check(len(grants) == 1, f"the log has {len(grants)} grants of Claude Code")


def _in_a_terminal(words: list[str], env: dict[str, str], folder: Path) -> str:
    """Runs a program that wants a terminal to its end, and returns what it wrote."""
    master, slave = pty.openpty()
    with subprocess.Popen(words, env=env, cwd=folder, stdin=slave, stdout=slave, stderr=slave) as program:
        os.close(slave)
        timer = threading.Timer(60, program.kill)
        timer.start()
        said = b""
        while True:
            try:
                part = os.read(master, 4_096)
            except OSError:  # the program has ended
                break
            said += part
        timer.cancel()
    os.close(master)
    return said.decode(errors="replace")


# The conformance suite --------------------------------------------------------------------------


def the_conformance_suite_finds_nothing(lab: Lab) -> None:
    """Runs its scenarios for authorization servers: `authorization-server-metadata-endpoint` and `authorization-code-grant`."""
    with issuing(lab, "conformance") as site:
        port = free_port()
        client = site.client(f"http://127.0.0.1:{port}/callback")
        out = lab.out / "conformance"
        words = [
            lab.peers.program("conformance"), "authorization", "--url", site.base, "--client-id", client.id,
            "--resource", f"{site.base}{ENDPOINT}", "-p", str(port), "-o", str(out),
        ]  # fmt: skip
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=lab.peers.env()) as suite:
            timer = threading.Timer(60, suite.kill)
            timer.start()
            said = ""
            for line in suite.stdout or ():
                said += line
                if line.startswith(f"{site.base}/oauth/authorize?"):
                    site.browser("ann").visit(line.strip())
            timer.cancel()
        check(suite.returncode == 0, f"the suite ended with {suite.returncode}: {said}")
        results = [json.loads(file.read_text()) for file in out.rglob("checks.json")]
        found = {one["id"]: one["status"] for result in results for one in result}
        wanted = ("authorization-server-metadata", "authorization-server-metadata-cimd", "authorization-code-grant")
        check(found == dict.fromkeys(wanted, "SUCCESS"), f"the results are {found}: {said}")


# Access -----------------------------------------------------------------------------------------


def a_token_has_the_rights_that_were_granted(lab: Lab) -> None:
    with issuing(lab, "rights") as site:
        client = site.client()
        for person, scope, expected, may_call in (
            ("ann", None, "mcp:read mcp:call", True),
            ("ann", "mcp:read", "mcp:read", False),
            ("ann", "openid profile mcp:call mcp:admin", "mcp:read mcp:call", True),
            ("rita", "mcp:call", "mcp:read", False),
            ("root", "mcp:admin", "mcp:read mcp:call mcp:admin", True),
        ):
            tokens = client.log_in(person, scope=scope, prompt="consent")
            check(tokens["scope"] == expected, f"{person} with {scope} gets {tokens['scope']}")
            found = site.answer(tokens["access_token"])
            check(may_call == (text_of(found.body) == NOTES["machine"]), f"{person} with {scope} calls and gets {found}")
        reader = client.log_in("ann", scope="mcp:read", prompt="consent")
        answer = send(
            "POST", f"{site.base}{ENDPOINT}",
            body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": TOOL, "arguments": {}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}},
            headers={"authorization": f"Bearer {reader['access_token']}", "accept": "application/json, text/event-stream",
                     "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": TOOL},
        )  # fmt: skip
        challenge = answer.headers.get("www-authenticate", "")
        check(answer.status == 403 and 'error="insufficient_scope"' in challenge, f"{answer.status} {challenge}")
        check("mcp:call" in challenge, f"the challenge does not name the scope: {challenge}")
        narrowed = parsed(client.refresh(client.log_in("ann")["refresh_token"], scope="mcp:read"))
        check(narrowed["scope"] == "mcp:read", f"a narrowed renewal has {narrowed['scope']}")


def a_revoked_grant_ends_within_a_second(lab: Lab) -> None:
    with issuing(lab, "revoked") as site:
        client = site.client()
        by_client, by_operator, other = (client.log_in("ann", prompt="consent") for _ in range(3))
        for tokens in (by_client, by_operator, other):
            check(site.call(tokens["access_token"]) == 200, "a login does not work")
        check(client.revoke(by_client["refresh_token"]).status == 200, "a revocation is refused")
        settled("the token ends", lambda: site.call(by_client["access_token"]) == 401)
        check(error_of(client.refresh(by_client["refresh_token"])) == "invalid_grant", "a revoked login is renewed")
        # The token names its grant, and the list shows the end of it.
        claims = json.loads(base64.urlsafe_b64decode(by_operator["access_token"].split(".")[1] + "=="))
        grant = claims["jti"].split(".")[0]
        listed = site.command("grants")
        check(listed.returncode == 0 and grant[-8:] in listed.stdout, f"`grants` shows {listed.stdout}{listed.stderr}")
        revoked = site.command("grants", "revoke", grant)
        check(revoked.returncode == 0, f"`grants revoke` ended with {revoked.returncode}: {revoked.stdout}{revoked.stderr}")
        settled("the token ends", lambda: site.call(by_operator["access_token"]) == 401)
        check(error_of(client.refresh(by_operator["refresh_token"])) == "invalid_grant", "a revoked login is renewed")
        check(len(site.records()) == 2, f"there are {len(site.records())} records, of one client and one login")
        check(client.revoke("swyr_unknown").status == 200, "an unknown token is told apart from a revoked one")
        check(site.call(other["access_token"]) == 200, "the revocation of one login ends another one")


def a_login_outlives_a_restart(lab: Lab) -> None:
    port, made = free_port(), new_keys(lab)
    with issuing(lab, "restart", port=port, made=made) as site:
        client = site.client()
        tokens = client.log_in()
    with issuing(lab, "restart", port=port, made=made) as site:
        check(site.call(tokens["access_token"]) == 200, "the token is not valid after a restart")
        renewed = client.refresh(tokens["refresh_token"])
        check(renewed.status == 200, f"after a restart a renewal is answered with {renewed.status}: {renewed.text}")


def gateways_with_one_folder_share_logins(lab: Lab) -> None:
    made, folder = new_keys(lab), str(lab.out / "shared_state")
    with issuing(lab, "first", made=made, state_dir=folder) as first:
        with issuing(lab, "second", made=made, state_dir=folder, public_url=first.base) as second:
            client = first.client()
            tokens = client.log_in()
            # The second one has another port than the public URL.
            address = f"http://127.0.0.1:{listening_port(second.log)}"

            def status(token: str) -> int:
                return Caller(address, token).request(ENDPOINT, "tools/call", {"name": TOOL, "arguments": {}}, {"Mcp-Name": TOOL}).status

            check(status(tokens["access_token"]) == 200, "the second gateway does not know the login of the first one")
            form = {"grant_type": "refresh_token", "client_id": client.id, "refresh_token": tokens["refresh_token"]}
            renewed = send("POST", f"{address}/oauth/token", form=form)
            check(renewed.status == 200, f"the second gateway answers a renewal with {renewed.status}: {renewed.text}")
            token = parsed(renewed)["access_token"]
            check(first.call(token) == 200, "the first gateway does not know the token of the second one")
            check(status(token) == 200, "the second gateway refuses its token")
            check(client.revoke(parsed(renewed)["refresh_token"]).status == 200, "a revocation is refused")
            settled("the first gateway refuses the token", lambda: first.call(token) == 401)
            took = settled("the second gateway refuses the token", lambda: status(token) == 401, 65)
            print(f"      the other gateway refused the token after {took:.0f} s")


def _json(value: Any) -> Document:
    return Document(json.dumps(value).encode())


CHECKS = (
    sdk_clients_register_and_log_in,
    sdk_clients_with_a_document_log_in,
    sdk_clients_log_in_below_a_path_prefix,
    claude_ai_logs_in_with_its_document,
    claude_ai_registers_and_logs_in,
    chatgpt_logs_in_with_its_document,
    chatgpt_registers_and_logs_in,
    other_clients_log_in,
    claude_code_logs_in,
    the_conformance_suite_finds_nothing,
    a_token_has_the_rights_that_were_granted,
    a_revoked_grant_ends_within_a_second,
    a_login_outlives_a_restart,
    gateways_with_one_folder_share_logins,
)
