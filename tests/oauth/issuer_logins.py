"""Logins at the gateway as an authorization server: the clients of two SDKs, Claude Code, the conformance suite, and people
of a login service. Each function of `CHECKS` is one check."""

import json
import os
import pty
import subprocess
import threading
from pathlib import Path
from typing import Any

from client_host import client_host
from issuer import ENDPOINT, TOOL, Site, issuing, send
from lab import BROWSER, NOTES, SDKS, Browser, Lab, callback, check, free_port
from proxy import PREFIX, proxy

#: The id of Claude Code, which is the URL of its document.
CLAUDE_CODE_ID = "https://claude.ai/oauth/claude-code-client-metadata"
#: The path at the gateway to which the login service sends browsers back.
CALLBACK = "/oauth/login-callback"


# The SDKs ---------------------------------------------------------------------------------------


def run_sdk(lab: Lab, site: Site, sdk: str, steps: list[str], **more: str) -> Any:
    """Runs the client of an SDK, which takes `steps` at the endpoint of the server; what it found."""
    ask = {"url": f"{site.base}{ENDPOINT}", "callback": callback(), "account": "ann", "tool": TOOL, "steps": steps, **more}
    return lab.sdk(sdk, ask, site.keys.get("ann", ""))


def _logs_in(lab: Lab, site: Site, sdk: str, **more: str) -> None:
    """Logs in, calls, renews a token, calls, is revoked, and logs in again."""
    found = run_sdk(lab, site, sdk, ["call", "refresh", "call", "revoke", "call"], **more)
    check(found["text"] == NOTES["machine"] and not found["failed"], f"the {sdk} client got {found}")
    check(TOOL in found["tools"], f"the {sdk} client lists {found['tools']}")
    check(len(found["urls"]) == 2, f"the {sdk} client opened {len(found['urls'])} URLs; 2 logins are needed")
    # Two logins and one renewal have two tokens each.
    check(len(set(found["secrets"])) == 6, f"the {sdk} client has {len(set(found['secrets']))} different tokens")


def sdk_clients_register_and_log_in(lab: Lab) -> None:
    with issuing(lab, "sdk_registers") as site:
        for sdk in SDKS:
            _logs_in(lab, site, sdk)


def sdk_clients_with_a_document_log_in(lab: Lab) -> None:
    with client_host(lab.out / "documents") as host:
        own = {"keys": True, "registration": False, "trusted_hosts": [host.name]}
        with issuing(lab, "sdk_documents", own, {"SSL_CERT_FILE": str(host.certificate)}) as site:
            for sdk in SDKS:
                # The document names no port, and the client listens at one that it chose.
                _logs_in(lab, site, sdk, document=host.publish(f"{sdk}.json", ["http://127.0.0.1/callback"]))
            check(sorted(host.requested) == [f"/{sdk}.json" for sdk in SDKS], f"these were fetched: {host.requested}")


def sdk_clients_log_in_below_a_path_prefix(lab: Lab) -> None:
    """The gateway is behind a proxy with a path prefix, whose rules are those of the page."""
    port, outside = free_port(), free_port()
    base = f"http://localhost:{outside}{PREFIX}"
    with issuing(lab, "prefix", port=port, public_url=base) as site, proxy(outside, port) as requested:
        for sdk in SDKS:
            _logs_in(lab, site, sdk)
        inserted = f"/.well-known/oauth-authorization-server{PREFIX}"
        check(inserted in requested, f"no client asked for {inserted}: {sorted(set(requested))}")
        # Clients that do not read the address from the 401 insert the prefix here too.
        for path in (f"/.well-known/oauth-protected-resource{PREFIX}{ENDPOINT}", f"{PREFIX}/.well-known/oauth-protected-resource{ENDPOINT}"):
            metadata = send(f"http://localhost:{outside}{path}")
            check(metadata.get("resource") == f"{base}{ENDPOINT}", f"{path} is answered with {metadata}")
        for path in (f"{PREFIX}/.well-known/openid-configuration", f"/.well-known/openid-configuration{PREFIX}"):
            metadata = send(f"http://localhost:{outside}{path}")
            check(metadata.get("issuer") == base, f"{path} is answered with {metadata}")


# The services -----------------------------------------------------------------------------------


def claude_code_logs_in(lab: Lab) -> None:
    """Runs the program itself, under the id of its document, which is an entry of the file here."""
    claude = lab.peers.bin / "claude"
    if not claude.exists():
        print("      NOTICE: Claude Code is not installed (SWITCHYARD_PEERS_WITHOUT=claude): its login was NOT tested")
        return
    home = lab.out / "claude_home"
    home.mkdir(exist_ok=True)
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\nexec {" ".join(BROWSER)} "$1" decision=allow\n')
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
        client = site.register(f"http://127.0.0.1:{port}/callback")
        out = lab.out / "conformance"
        words = [
            lab.peers.program("conformance"), "authorization", "--url", site.base, "--client-id", client,
            "--resource", f"{site.base}{ENDPOINT}", "-p", str(port), "-o", str(out),
        ]  # fmt: skip
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=lab.peers.env()) as suite:
            timer = threading.Timer(60, suite.kill)
            timer.start()
            said = ""
            for line in suite.stdout or ():
                said += line
                if line.startswith(f"{site.base}/oauth/authorize?"):
                    Browser(site.keys["ann"]).visit(line.strip())
            timer.cancel()
        check(suite.returncode == 0, f"the suite ended with {suite.returncode}: {said}")
        results = [json.loads(file.read_text()) for file in out.rglob("checks.json")]
        found = {one["id"]: one["status"] for result in results for one in result}
        wanted = ("authorization-server-metadata", "authorization-server-metadata-cimd", "authorization-code-grant")
        check(found == dict.fromkeys(wanted, "SUCCESS"), f"the results are {found}: {said}")


# People of a login service ----------------------------------------------------------------------


def sdk_clients_log_in_by_a_login_service(lab: Lab) -> None:
    """People sign in at `oidc-provider`, and have no key."""
    port = free_port()
    asked = {
        "redirect_uris": [f"http://localhost:{port}{CALLBACK}"], "grant_types": ["authorization_code"],
        "response_types": ["code"], "token_endpoint_auth_method": "client_secret_basic",
    }  # fmt: skip
    client = send(f"{lab.issuer}/reg", asked)
    check("client_id" in client, f"the login service registers no client: {client}")
    login = {
        "issuer": lab.issuer,
        "client_id": client["client_id"],
        "client_secret": "${LOGIN_SECRET}",
        "allow": {"domains": ["example.com"]},
    }
    with issuing(lab, "provider", {"login": login}, {"LOGIN_SECRET": client["client_secret"]}, port) as site:
        site.keys = {}
        for sdk in SDKS:
            found = run_sdk(lab, site, sdk, ["call", "refresh", "call"])
            check(found["text"] == NOTES["machine"] and len(found["urls"]) == 1, f"the {sdk} client got {found}")
        stored = b"".join(file.read_bytes() for file in site.log.with_suffix(".state").rglob("*") if file.is_file())
        for token in lab.auth()["tokens"]:
            check(token.encode() not in stored + site.log.read_bytes(), "a token of the login service is stored or logged")


CHECKS = (
    sdk_clients_register_and_log_in,
    sdk_clients_with_a_document_log_in,
    sdk_clients_log_in_below_a_path_prefix,
    claude_code_logs_in,
    the_conformance_suite_finds_nothing,
    sdk_clients_log_in_by_a_login_service,
)
