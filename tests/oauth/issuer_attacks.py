"""Attacks on the gateway as an authorization server, from outside. Each function is one check."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import http.client
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from client_host import Document, Trap, client_host
from issuer import CLAUDE, ELSEWHERE, ENDPOINT, HandClient, Site, challenge, error_of, issuing, parameters, parsed, send, settled
from lab import Browser, Lab, Page, check

#: Names and addresses of this machine and of networks that are not public.
PRIVATE = (
    "127.0.0.1", "127.1", "127.0.0.5", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0.0.0.0", "0",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    "localhost", "localhost.", "LOCALHOST", "ip6-localhost", "x@127.0.0.1", "claude.ai@127.0.0.1", "claude.ai:80@127.0.0.1",
    "10.0.0.1", "192.168.0.1", "172.31.255.255", "169.254.169.254", "100.100.100.200", "[fd00:ec2::254]", "[fe80::1]",
)  # fmt: skip
#: How an id may begin.
SCHEMES = ("https://", "http://", "HTTPS://", "https:\\\\", "file://", "ftp://")
#: Redirect URIs that are none of `https://app.example/callback`.
FOREIGN = (
    "https://evil.example/callback", "https://app.example/callback/", "https://app.example/callback/../x",
    "https://app.example/callback?x=1", "https://app.example/callback#x", "https://app.example/Callback",
    "https://app.example/%63allback", "https://app.example:8443/callback", "https://app.example:443/callback",
    "https://app.example@evil.example/callback", "https://app.example.evil.example/callback", "https://evil.example\\@app.example/callback",
    "http://app.example/callback", "HTTPS://app.example/callback", "https://APP.example/callback", "//app.example/callback",
    "/callback", "https:app.example/callback", "https:///app.example/callback", " https://app.example/callback",
    "https://app.example/callback ", "https://app.example/callback\r\nx: y", "https://app.example/callback\x00",
    "javascript:alert(1)", "data:text/html,x", "http://localhost/callback", "http://127.0.0.1/callback", "about:blank", "*", "",
)  # fmt: skip
#: Names with which a client could deceive a person, and what of each must not be on the page as it is.
NAMES = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</title><h1>Switchyard</h1>", "\"><a href='https://evil.example'>go</a>",
    "Claude\u202egpj.exe", "Cl\u200baude", "Claude\u2066 (verified)\u2069", "Claude\n\nYour session expired. Enter your key at evil.example",
    "Claude\r\nLocation: https://evil.example", "\u0000Claude", "Claude\u2028Claude", "Claude" * 100, "&lt;b&gt;Claude&lt;/b&gt;",
    "{{7*7}}", "${7*7}", "%3Cscript%3E", "Switchyard: enter your key again", "\u0421laude", "\U000e0043laude", "\ufeffClaude",
)  # fmt: skip
#: The longest name of a client on a page.
MOST_CHARACTERS = 60


# Addresses --------------------------------------------------------------------------------------


def hostile_documents_reach_no_private_address(lab: Lab) -> None:
    """Ids of clients and documents that lead to this machine. The one host that is trusted counts for itself."""
    with client_host(lab.out / "hostile") as host, Trap() as trap, ExitStack() as stack:
        env = {"SSL_CERT_FILE": str(host.ca)}
        strict = stack.enter_context(issuing(lab, "strict", {"keys": True}, env))
        lenient = stack.enter_context(issuing(lab, "lenient", {"keys": True, "trusted_hosts": [host.name]}, env))
        ids = [(strict, f"{scheme}{name}:{trap.port}/client.json") for name in PRIVATE for scheme in SCHEMES]
        # Also another port of the trusted host.
        ids += [(lenient, one) for _, one in ids]
        ids += [(strict, host.publish("/untrusted.json", [ELSEWHERE]))]
        ids += [(lenient, one) for one in _hostile_documents(host, trap.port)]
        # A document may name keys elsewhere, which are looked up when the client proves who it is.
        browsers = {id(site): _signed_in(site) for site in (strict, lenient)}
        answers = Counter()
        for site, client in ids:
            page = _unhurried(lambda site=site, client=client: browsers[id(site)].open(HandClient(site, client, ELSEWHERE).url()))
            check(not page.url.startswith(ELSEWHERE), f"{client} is answered with a redirect")
            check(page.status >= 400, f"{client} is answered with {page.status}: {page.text[:300]}")
            answers[page.status] += 1
        check(len(ids) >= 200, f"there are only {len(ids)} documents")
        keys = host.publish(
            "/keys.json", [ELSEWHERE], token_endpoint_auth_method="private_key_jwt",
            jwks_uri=f"https://127.0.0.1:{trap.port}/keys",
        )  # fmt: skip
        client = HandClient(lenient, keys, ELSEWHERE)
        code = client.authorize(lenient.browser("ann"))
        proof = {
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": "eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.x",
        }
        check(client.redeem(code, **proof).status >= 400, "a proof without a key is accepted")
        check(trap.connections == 0, f"{trap.connections} of {len(ids)} documents reached a private address")
        check("/untrusted.json" not in host.requested, "a host that is not trusted was contacted at a private address")
        print(f"      {len(ids) + 1} documents, {trap.connections} connections; answers {dict(answers)}")


def _hostile_documents(host: Any, port: int) -> Iterator[str]:
    """Documents of a trusted host that must not be accepted."""
    good = {"client_id": "", "redirect_uris": [ELSEWHERE]}
    for status in (301, 302, 303, 307, 308):
        for place in (f"http://127.0.0.1:{port}/", f"https://127.0.0.1:{port}/", f"//127.0.0.1:{port}/", "/other.json"):
            path = f"/moved-{status}-{len(place)}-{place[:6].count('s')}.json"
            yield host.answer(path, Document(b"", status=status, headers={"location": place}))
    for name, change in {
        "other": {"client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata"},
        "nobody": {"client_id": None},
        "secret": {"client_secret": "a-secret"},
        "basic": {"token_endpoint_auth_method": "client_secret_basic"},
        "uris": {"redirect_uris": [f"http://app.example:{port}/callback", "javascript:alert(1)"]},
        "none": {"redirect_uris": []},
        "text": {"redirect_uris": ELSEWHERE},
        "grant": {"grant_types": ["client_credentials"]},
        "large": {"padding": "x" * 6_000},
    }.items():
        url = host.url(f"/{name}.json")
        yield host.answer(f"/{name}.json", _json({**good, "client_id": url, **change}))
    for name, document in {
        "html": Document(b"<html>", "text/html"),
        "typeless": Document(b"{}", ""),
        "list": Document(b"[]"),
        "broken": Document(b"{"),
        "twice": Document(b'{"client_id":"a","client_id":"b"}'),
        "deep": Document(b"[" * 4_000),
        "created": Document(b"{}", status=201),
        "absent": Document(b"{}", status=404),
        "broken-server": Document(b"{}", status=500),
        "packed": Document(b"\x1f\x8b\x08\x00", headers={"content-encoding": "gzip"}),
        "slow": Document(b"{}", wait=7),
    }.items():
        yield host.answer(f"/{name}.json", document)


def _json(value: Any) -> Document:
    return Document(json.dumps(value).encode())


def _signed_in(site: Site, name: str = "ann") -> Browser:
    """A browser with a session, which a login has left."""
    browser = site.browser(name)
    site.client().authorize(browser)
    return browser


def _unhurried(send_it: Callable[[], Page]) -> Page:
    """Sends a request again when its address has sent too many."""
    for _ in range(60):
        page = send_it()
        if page.status != 429:
            return page
        time.sleep(min(5, int(page.headers.get("retry-after", "1"))))
    return page


def a_stranger_makes_the_gateway_contact_nobody(lab: Lab) -> None:
    with client_host(lab.out / "stranger") as host:
        own = {"keys": True, "trusted_hosts": [host.name]}
        with issuing(lab, "stranger", own, {"SSL_CERT_FILE": str(host.ca)}) as site:
            client = HandClient(site, host.publish("/client.json", [ELSEWHERE]), ELSEWHERE)
            for _ in range(20):
                page = _unhurried(lambda: Browser().open(client.url()))
                check(page.status == 200 and page.forms, f"without a session the page is {page.status}: {page.text[:300]}")
                client.redeem("swyc_invented")
                client.refresh("swyr_invented")
                client.revoke("swyr_invented")
            check(host.requested == [], f"a stranger caused requests for {host.requested}")


# Redirects --------------------------------------------------------------------------------------


def nothing_is_an_open_redirect(lab: Lab) -> None:
    with issuing(lab, "redirects") as site:
        client = site.client()
        # A stranger sees the sign-in, and a person sees why the request is not accepted.
        for browser, least in ((_signed_in(site), 400), (Browser(), 200)):
            for uri in FOREIGN:
                page = _unhurried(lambda uri=uri: browser.open(client.url(redirect_uri=uri)))
                _stays(site, page, f"redirect_uri={uri!r}", least)
            for changes in ({"client_id": "unknown"}, {"client_id": f"swyclient-{'0' * 32}"}, {"redirect_uri": None}):
                page = _unhurried(lambda changes=changes: browser.open(client.url(**changes, response_type="token")))
                _stays(site, page, str(changes), least)
        # Anybody can register a client, so its errors are shown, and a link leads to the redirect URI.
        browser = _signed_in(site)
        for changes, code in (
            ({"response_type": "token"}, "unsupported_response_type"),
            ({"response_type": "code token"}, "unsupported_response_type"),
            ({"resource": "https://evil.example/mcp"}, "invalid_target"),
            ({"resource": f"{site.base}/mcp/none"}, "invalid_target"),
            ({"scope": "view:a view:b"}, "invalid_scope"),
            ({"scope": "view:none"}, "invalid_scope"),
            ({"request": "eyJ"}, "request_not_supported"),
            ({"request_uri": "https://evil.example/"}, "request_not_supported"),
            ({"response_mode": "fragment"}, "invalid_request"),
            ({"response_mode": "form_post"}, "invalid_request"),
        ):
            page = _unhurried(lambda changes=changes: browser.open(client.url(**changes)))
            _is_shown(client, page, code)
        # A return address in a form or a link of the sign-in leads nowhere else.
        for name in ("to", "return", "next", "return_to", "redirect", "login"):
            for target in ("https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"):
                page = Browser().open(f"{site.base}/oauth/sign-in?{name}={quote(target, safe='')}")
                _stays(site, page, f"{name}={target}")
                check("evil.example" not in "".join(form.action for form in page.forms), "a form leads to another host")


def _stays(site: Site, page: Page, what: str, least: int = 200) -> None:
    check(page.url.startswith(f"{site.base}/"), f"{what} leads to {page.url}")
    check(page.status >= least, f"{what} is answered with {page.status}: {page.text[:300]}")
    check("refresh" not in page.headers and "http-equiv=\"refresh\"" not in page.text, f"{what}: the page leads elsewhere")


def _is_shown(client: HandClient, page: Page, code: str) -> None:
    _stays(client.site, page, code, 400)
    link = re.search(r'<a href="([^"]+)">Return to ', page.text)
    check(link is not None, f"{code}: the page has no link to the client: {page.text[:500]}")
    if link is not None:
        _is_refused(client, Page(html.unescape(link[1]), page.status, {}, ""), code)


def _is_refused(client: HandClient, page: Page, code: str) -> None:
    check(page.url.startswith(f"{client.redirect_uri}?"), f"{code} is shown at {page.url}: {page.text[:300]}")
    found = parameters(page.url)
    check(found.get("error") == [code], f"{code} is expected, and the answer is {found}")
    check(found.get("state") == [client.state] and found.get("iss") == [client.site.base], f"the answer is {found}")
    check("code" not in found, f"an error has a code: {found}")


# Codes and tokens -------------------------------------------------------------------------------


def a_code_works_once_and_for_its_client_only(lab: Lab) -> None:
    with issuing(lab, "codes") as site:
        client, thief = site.client(), site.client()
        code = client.authorize(site.browser("ann"))
        verifier = client.verifier
        # Injection: another client, verifier, redirect URI or resource.
        for wrong, changes in (
            ("another client", {"client_id": thief.id}),
            ("another verifier", {"code_verifier": "a-verifier-of-at-least-forty-three-characters"}),
            ("a verifier of another length", {"code_verifier": verifier[:42]}),
            ("the challenge as the verifier", {"code_verifier": challenge(verifier)}),
            ("another redirect URI", {"redirect_uri": CLAUDE}),
            ("another resource", {"resource": f"{site.base}/mcp/other"}),
            ("a changed code", {"code": code[:-1] + ("0" if code[-1] != "0" else "1")}),
            ("no code", {"code": None}),
            ("no verifier", {"code_verifier": None}),
            ("no client", {"client_id": None}),
            ("another grant", {"grant_type": "password", "username": "ann", "password": site.keys["ann"]}),
            ("another grant", {"grant_type": "client_credentials"}),
            ("a refresh token that is a code", {"grant_type": "refresh_token", "refresh_token": code}),
        ):
            page = client.redeem(code, **changes)
            check(page.status in (400, 401), f"{wrong} is answered with {page.status}: {page.text}")
            check("access_token" not in page.text, f"{wrong} gets a token")
        repeated = f"{urlencode(_form(client, code))}&client_id={thief.id}"
        page = Browser().request("POST", f"{site.base}/oauth/token", repeated, {"content-type": "application/x-www-form-urlencoded"})
        check(error_of(page) == "invalid_request", f"a repeated field is answered with {page.status}: {page.text}")
        # None of it has used the code up.
        tokens = parsed(client.redeem(code))
        check(site.call(tokens["access_token"]) == 200, f"after the attempts of others the code is refused: {tokens}")
        renewed = parsed(client.refresh(tokens["refresh_token"]))
        stolen = client.redeem(code, code_verifier="x" * 43)
        check(error_of(stolen) == "invalid_grant", f"a code without its verifier is answered with {stolen.status}")
        check(site.call(renewed["access_token"]) == 200, "a used code without its verifier ends the login")
        replayed = client.redeem(code)
        check(error_of(replayed) == "invalid_grant", f"a replay is answered with {replayed.status}: {replayed.text}")
        settled("a replay ends the login", lambda: site.call(tokens["access_token"]) == 401)
        check(error_of(client.refresh(renewed["refresh_token"])) == "invalid_grant", "a replay leaves a refresh token")


def _form(client: HandClient, code: str) -> dict[str, str]:
    return {
        "grant_type": "authorization_code", "client_id": client.id, "code": code, "code_verifier": client.verifier,
        "redirect_uri": client.redirect_uri,
    }  # fmt: skip


def proof_keys_cannot_be_left_out(lab: Lab) -> None:
    with issuing(lab, "pkce") as site:
        client, browser = site.client(), _signed_in(site)
        for changes in (
            {"code_challenge": None},
            {"code_challenge": None, "code_challenge_method": None},
            {"code_challenge_method": None},
            {"code_challenge_method": "plain"},
            {"code_challenge_method": "s256"},
            {"code_challenge_method": "S512"},
            {"code_challenge": ""},
            {"code_challenge": "short"},
            {"code_challenge": "x" * 44},
            {"code_challenge": "!" * 43},
        ):
            page = _unhurried(lambda changes=changes: browser.open(client.url(**changes)))
            _is_shown(client, page, "invalid_request")


def a_refresh_token_that_is_used_again_ends_the_login(lab: Lab) -> None:
    with issuing(lab, "refresh") as site:
        client, other = site.client(), site.client()
        first = client.log_in(prompt="consent")
        tokens = first
        for _ in range(2):
            tokens = parsed(client.refresh(tokens["refresh_token"]))
        check(error_of(other.refresh(tokens["refresh_token"])) == "invalid_grant", "another client may renew")
        check(error_of(client.refresh(tokens["refresh_token"], scope="mcp:admin")) == "invalid_scope", "a renewal has more")
        check(site.call(tokens["access_token"]) == 200, "an attempt of another client ends the login")
        check(error_of(client.refresh(first["refresh_token"])) == "invalid_grant", "an old token is accepted")
        took = settled("the login ends", lambda: site.call(tokens["access_token"]) == 401)
        check(error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant", "the thief keeps the login")
        # After the grace, the last token that was used counts as stolen as well.
        last = client.log_in(prompt="consent")
        client.refresh(last["refresh_token"])
        time.sleep(11)
        check(error_of(client.refresh(last["refresh_token"])) == "invalid_grant", "a token works again after 11 s")
        print(f"      the tokens of the login were refused after {took:.2f} s")


def a_thousand_refreshes_at_once_are_one(lab: Lab) -> None:
    with issuing(lab, "storm") as site:
        client = site.client()
        token = client.log_in()["refresh_token"]
        with ThreadPoolExecutor(50) as pool:
            pages = list(pool.map(lambda _: client.refresh(token), range(1_000)))
        statuses = Counter(page.status for page in pages)
        found = [parsed(page) for page in pages if page.status == 200]
        answers = {(one["access_token"], one["refresh_token"]) for one in found}
        check(len(answers) == 1, f"there are {len(answers)} different answers; statuses {statuses}")
        check(set(statuses) <= {200, 429, 503}, f"a valid client is refused: {statuses}")
        for page in pages:
            check(page.status == 200 or "retry-after" in page.headers, f"{page.status} without `Retry-After`")
        check(_unhurried(lambda: client.refresh(found[0]["refresh_token"])).status == 200, "the client was logged out by its own requests")
        print(f"      1,000 refreshes: {dict(statuses)}")


def a_token_is_for_its_endpoint_and_its_gateway(lab: Lab) -> None:
    with issuing(lab, "audience") as site, issuing(lab, "audience_elsewhere") as elsewhere:
        one = site.client().log_in()["access_token"]
        everything = site.client(resource=f"{site.base}/mcp").log_in()["access_token"]
        for token, path, status in (
            (one, ENDPOINT, 200), (one, "/mcp/other", 401), (one, "/mcp", 401), (one, "/sse", 401),
            (everything, ENDPOINT, 200), (everything, "/mcp/other", 200), (everything, "/mcp", 200),
        ):  # fmt: skip
            found = site.call(token, path)
            check(found == status, f"at {path} the token is answered with {found}, not with {status}")
        for path in ("/api/v1/mcp/tools", "/api/v1/mcp/servers", "/metrics"):
            page = send("GET", f"{site.base}{path}", headers={"authorization": f"Bearer {one}"})
            check(page.status == 401, f"{path} answers {page.status} to a token for {ENDPOINT}")
        check(elsewhere.call(everything) == 401, "another gateway accepts the token")
        keys = parsed(send("GET", f"{site.base}/oauth/jwks.json"))["keys"]
        check(all(set(key) & {"d", "p", "q", "k"} == set() for key in keys), "the key set has a private key")
        forged = dict(_forged(everything, keys))
        for how, token in forged.items():
            found = site.call(token, "/mcp")
            check(found == 401, f"a token with {how} is answered with {found}")
        code = site.client().authorize(site.browser("ann"))
        check(site.call(code) == 401, "a code is accepted as a token")
        check(site.call(site.client().log_in("ben")["refresh_token"]) == 401, "a refresh token is accepted as a token")


def _forged(token: str, keys: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Tokens that somebody has made of a valid one."""
    head, body, signature = token.split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, body))

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    yield "no signature", f"{part({**header, 'alg': 'none'})}.{body}."
    yield "an empty signature", f"{head}.{body}."
    yield "another role", f"{head}.{part({**claims, 'scope': 'mcp:admin'})}.{signature}"
    yield "a later end", f"{head}.{part({**claims, 'exp': claims['exp'] + 9_999})}.{signature}"
    yield "an unknown key", f"{part({**header, 'kid': 'other'})}.{body}.{signature}"
    for key in keys:
        confused = f"{part({**header, 'alg': 'HS256'})}.{body}"
        for secret in (key["x"].encode(), json.dumps(key).encode(), base64.urlsafe_b64decode(key["x"] + "==")):
            digest = hmac.new(secret, confused.encode(), hashlib.sha256).digest()
            yield "HMAC under the public key", f"{confused}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
    yield "a key of its own", f"{part({**header, 'jwk': keys[0]})}.{part({**claims, 'sub': 'key:root'})}.{signature}"


# People -----------------------------------------------------------------------------------------


def the_consent_page_cannot_be_framed_or_forged(lab: Lab) -> None:
    with issuing(lab, "consent") as site:
        client, browser = site.client(), _signed_in(site)
        page = _consent(browser, client)
        policy = {words[0]: words[1:] for part in page.headers["content-security-policy"].split(";") if (words := part.split())}
        check(policy.get("frame-ancestors") == ["'none'"], f"other sites may frame the page: {policy}")
        check(policy.get("default-src") == ["'none'"], f"the page may load things: {policy}")
        check("script-src" not in policy or policy["script-src"] == ["'none'"], f"the page runs scripts: {policy}")
        check(policy.get("base-uri") == ["'none'"], f"the page may have another base: {policy}")
        check(page.headers.get("x-frame-options", "").upper() == "DENY", "old browsers may frame the page")
        check("no-store" in page.headers.get("cache-control", ""), "the page may be cached")
        # With `no-referrer` a browser would hide the origin of the form.
        check(page.headers.get("referrer-policy") == "same-origin", "the address of the page is passed on")
        check(page.headers.get("x-content-type-options") == "nosniff", "the type of the page is guessed")
        check("<script" not in page.text and " onclick" not in page.text, "the page has a script")
        form = next(form for form in page.forms if form.method == "post")
        values = {name for name in form.fields if len(form.fields[name]) >= 32}
        check(values, f"the form has no token: {form.fields}")
        url = f"{site.base}/oauth/authorize"
        fields = {**form.fields, **dict([form.buttons[0]])}
        fields.pop("", None)
        allowed = _own_headers(site)

        def sent(who: Browser, changed: Mapping[str, str], headers: Mapping[str, str]) -> Page:
            return who.request("POST", url, urlencode(changed), headers)

        stranger, ben = Browser(), _signed_in(site, "ben")
        before = len(site.records())
        for what, who, changed, headers in (
            ("another site", browser, fields, {**allowed, "origin": "https://evil.example", "sec-fetch-site": "cross-site"}),
            ("a page without an origin", browser, fields, {**allowed, "origin": "null", "sec-fetch-site": "cross-site"}),
            ("a site of the same domain", browser, fields, {**allowed, "origin": "http://localhost:1", "sec-fetch-site": "same-site"}),
            ("nobody", stranger, fields, allowed),
            ("another person", ben, fields, allowed),
            *((f"a form without {name}", browser, {**fields, name: ""}, allowed) for name in values),
            *((f"a form with another {name}", browser, {**fields, name: _changed(fields[name])}, allowed) for name in values),
        ):
            answer = sent(who, changed, headers)
            check(answer.status >= 400, f"{what} is answered with {answer.status} {answer.headers.get('location')}")
            check("code=" not in answer.headers.get("location", ""), f"{what} gets a code")
        check(len(site.records()) == before, "a refused form has made a record")
        state = client.state
        other = _consent(ben, client)
        client.state = state
        mixed = {**next(form for form in other.forms if form.method == "post").fields, **dict([form.buttons[0]])}
        for name in values:
            answer = sent(browser, {**fields, name: mixed[name]}, allowed)
            check("code=" not in answer.headers.get("location", ""), f"the {name} of another person gets a code")
        check(browser.open(f"{url}?{urlencode(fields)}").status >= 400, "a link agrees")
        # The answer goes where the request said, and nothing has used the form up.
        answer = sent(browser, fields, allowed)
        check(answer.status in (302, 303), f"the form of the person is answered with {answer.status}: {answer.text[:300]}")
        client.code_at(answer.headers["location"])


def a_link_of_a_stranger_needs_a_click(lab: Lab) -> None:
    """A person who allowed a client before opens a link that somebody else began: no code is given without a click."""
    with issuing(lab, "forwarded") as site:
        client, browser = site.client(), site.browser("ann")
        check(client.redeem(client.authorize(browser)).status == 200, "the first login does not work")
        before = len(site.records())
        link = client.url()
        verifier, state = client.verifier, client.state
        for fields in ({}, {"sec-fetch-dest": "image"}, {"sec-purpose": "prefetch"}):
            page = browser.request("GET", link, headers=fields)
            check(page.status == 200 and "location" not in page.headers, f"{fields}: {page.status} {page.headers}")
            check("'none'" in page.headers["content-security-policy"].split("frame-ancestors")[1], "other sites may frame the page")
            check(page.headers.get("x-frame-options", "").upper() == "DENY", "old browsers may frame the page")
        silent = browser.request("GET", client.url(prompt="none")).headers.get("location", "")
        check("error=interaction_required" in silent and "code=" not in silent, f"`prompt=none` is answered with {silent}")
        form = next(form for form in page.forms if form.method == "post")
        sent = {**form.fields, **dict([form.buttons[0]])}
        for what, who, changed, headers in (
            ("another site", browser, sent, {**_own_headers(site), "origin": "https://evil.example", "sec-fetch-site": "cross-site"}),
            ("another person", _signed_in(site, "ben"), sent, _own_headers(site)),
            ("nobody", Browser(), sent, _own_headers(site)),
            ("a form without its token", browser, {**sent, "csrf": ""}, _own_headers(site)),
        ):
            answer = who.request("POST", f"{site.base}/oauth/authorize", urlencode(changed), headers)
            check(answer.status >= 400 and "location" not in answer.headers, f"{what} is answered with {answer.status}")
        # The login of ben, who signed in to try it, is the one that was added.
        check(len(site.records()) <= before + 2, "a link has made a grant")
        answer = browser.request("POST", f"{site.base}/oauth/authorize", urlencode(sent), _own_headers(site))
        client.verifier, client.state = verifier, state
        code = client.code_at(answer.headers.get("location", ""), answer.text)
        check(client.redeem(code).status == 200, "the click gives no tokens")


def _own_headers(site: Site) -> dict[str, str]:
    return {
        "content-type": "application/x-www-form-urlencoded", "origin": site.base, "sec-fetch-site": "same-origin",
        "sec-fetch-mode": "navigate",
    }  # fmt: skip


def _changed(value: str) -> str:
    return ("A" if value[0] != "A" else "B") + value[1:]


def _consent(browser: Browser, client: HandClient) -> Page:
    """The page that asks the person, whose session the browser has."""
    page = _unhurried(lambda: browser.open(client.url(prompt="consent")))
    check(page.status == 200 and page.forms and not page.forms[-1].passwords, f"the page is {page.status}: {page.text[:500]}")
    return page


def a_person_who_refuses_gives_no_code(lab: Lab) -> None:
    with issuing(lab, "refused") as site:
        client, browser = site.client(), _signed_in(site)
        page = _consent(browser, client)
        form = next(form for form in page.forms if form.method == "post")
        check(len(form.buttons) >= 2, f"the page has no second button: {form.buttons}")
        before = len(site.records())
        fields = {**form.fields, **dict([form.buttons[-1]])}
        answer = browser.request("POST", f"{site.base}/oauth/authorize", urlencode(fields), _own_headers(site))
        _is_refused(client, Page(answer.headers["location"], answer.status, {}, ""), "access_denied")
        check(len(site.records()) == before, "a refusal has made a record")


def names_of_clients_cannot_deceive(lab: Lab) -> None:
    with issuing(lab, "names") as site:
        browser = _signed_in(site)
        for name in NAMES:
            page = _registered(site, name)
            client = HandClient(site, parsed(page)["client_id"], ELSEWHERE)
            shown = _consent(browser, client).text
            for part in ("<script", "<img", "<a href='https://evil", "</title><h1>", "\u202e", "\u200b", "\u2066", "\u2028", "\ufeff", "\x00", "\U000e0043"):
                check(part not in shown, f"the page of {name!r} has {part!r}")
            text = html.unescape(re.sub(r"<[^>]*>", "\n", shown))
            check("app.example" in text, f"the page of {name!r} does not name where the answer goes")
            check("ann" in text, f"the page of {name!r} does not name the person")
            longest = max((len(run) for run in re.findall(r"(?:Claude)+", text)), default=0)
            check(longest <= MOST_CHARACTERS, f"the page of {name[:20]!r} has a name of {longest} characters")
            plain = "".join(c for c in name if c.isprintable())[:20].strip()
            lines = [line for line in text.splitlines() if plain and plain in line]
            check(all("evil.example" not in line or len(line.strip()) <= MOST_CHARACTERS + 2 for line in lines), f"{name!r} has a line of its own")
        print(f"      {len(NAMES)} names")


def _registered(site: Site, name: str) -> Page:
    page = _unhurried_503(lambda: site.register([ELSEWHERE], client_name=name))
    check(page.status == 201, f"a client with the name {name!r} is answered with {page.status}: {page.text}")
    return page


def _unhurried_503(send_it: Callable[[], Page]) -> Page:
    for _ in range(30):
        page = send_it()
        if page.status not in (429, 503):
            return page
        time.sleep(min(5, int(page.headers.get("retry-after", "1"))))
    return page


def web_pages_may_be_clients_and_read_no_page(lab: Lab) -> None:
    with issuing(lab, "origins") as site:
        origin = {"origin": "https://app.example"}
        documents = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/oauth/jwks.json")
        for path in documents:
            page = send("GET", f"{site.base}{path}", headers=origin)
            check(page.status == 200 and page.headers.get("access-control-allow-origin") in ("*", origin["origin"]), f"{path}: {page}")
            check("access-control-allow-credentials" not in page.headers, f"{path} is for pages with cookies")
        for path, kind in (("/oauth/token", "content-type"), ("/oauth/register", "content-type"), ("/oauth/revoke", "content-type")):
            asked = {**origin, "access-control-request-method": "POST", "access-control-request-headers": kind}
            page = send("OPTIONS", f"{site.base}{path}", headers=asked)
            check(page.status in (200, 204) and "access-control-allow-origin" in page.headers, f"{path}: {page.status} {page.headers}")
            check("access-control-allow-credentials" not in page.headers, f"{path} is for pages with cookies")
        # A page of a stranger reads neither the sign-in nor the question.
        client, browser = site.client(), _signed_in(site)
        for who in (browser, Browser()):
            page = who.request("GET", client.url(prompt="consent"), headers=origin)
            check("access-control-allow-origin" not in page.headers, f"another site reads the page: {page.headers}")
        # A name that somebody else points at this address gets no document with an issuer of its own.
        for path in documents:
            page = send("GET", f"{site.base}{path}", headers={"host": "evil.example"})
            check(page.status >= 400 and "evil.example" not in page.text, f"{path} for evil.example: {page.status} {page.text[:300]}")


# Amounts ----------------------------------------------------------------------------------------


def ten_thousand_registrations_are_bounded(lab: Lab) -> None:
    """Sends them from one address, and from 250 addresses of this machine."""
    with issuing(lab, "registrations") as site:
        client = site.client()
        tokens = client.log_in()
        memory = _resident(site)

        def registers(source: str) -> tuple[int, bool]:
            connection = http.client.HTTPConnection("127.0.0.1", urlsplit(site.base).port or 0, 20, (source, 0))
            body = json.dumps({"client_name": "x" * 1_000, "redirect_uris": [ELSEWHERE]})
            connection.request("POST", "/oauth/register", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status, answer.getheader("retry-after") is not None

        counts = []
        for sources in (["127.0.0.1"] * 5_000, [f"127.0.1.{1 + at % 250}" for at in range(5_000)]):
            began = time.monotonic()
            with ThreadPoolExecutor(32) as pool:
                answers = list(pool.map(registers, sources))
            statuses = Counter(status for status, _ in answers)
            check(set(statuses) <= {201, 429, 503}, f"the statuses are {statuses}")
            check(all(has_pause for status, has_pause in answers if status != 201), "a refusal has no `Retry-After`")
            # 100 at once, and four in each second.
            most = 100 + (time.monotonic() - began) * 4 + 1
            check(statuses[201] <= most, f"{statuses[201]} were accepted, and {most:.0f} is the most")
            counts.append(dict(statuses))
        grown = _resident(site) - memory
        check(len(site.records()) <= 1_001, f"there are {len(site.records())} records")
        check(grown <= 64 << 20, f"the program has {grown >> 20} MiB more")
        check(site.call(tokens["access_token"]) == 200, "the client of a person was displaced")
        check(client.refresh(tokens["refresh_token"]).status == 200, "the client of a person cannot renew")
        large = site.register([ELSEWHERE], client_name="x" * 100_000)
        check(large.status in (400, 413, 429, 503), f"a registration of 100 KB is answered with {large.status}")
        one, many = counts
        print(f"      from one address {one}, from 250 {many}; {len(site.records())} records, {grown >> 20} MiB more")


def _resident(site: Site) -> int:
    """The bytes of memory that the program has."""
    with open(f"/proc/{site.gateway.pid()}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4_096


def no_secret_of_the_authorization_server_is_shown(lab: Lab) -> None:
    """Makes each kind of secret, succeeds and fails with it, and looks for it where it must not be."""
    with issuing(lab, "canary") as site:
        client = site.client()
        tokens = client.log_in()
        renewed = parsed(client.refresh(tokens["refresh_token"]))
        site.call(renewed["access_token"])
        site.call(renewed["access_token"], "/mcp/other")
        code = client.authorize(site.browser("ben"))
        client.redeem(code, code_verifier="canary-verifier-of-at-least-forty-three-characters")
        client.redeem(code, client_id="canary-client")
        client.redeem(f"{code}0")
        client.redeem(code)
        client.redeem(code)
        client.refresh("swyr_canary-refresh")
        claims = json.loads(base64.urlsafe_b64decode(renewed["access_token"].split(".")[1] + "=="))
        site.command("grants", "revoke", claims["jti"].split(".")[0])
        client.revoke(client.log_in("rita")["refresh_token"])
        wrong = Browser("canary-key-that-is-wrong-4711").visit(client.url())
        check(wrong.status >= 400, f"a wrong key is answered with {wrong.status}")
        site.browser("ann").open(client.url(response_type="canary-type"))
        names = ("canary-verifier", "canary-refresh", "canary-key-that-is-wrong", client.state)
        places = {file.name: file.read_bytes() for file in lab.out.glob("gateway_canary*") if file.is_file()}
        places |= {str(file.relative_to(site.state())): file.read_bytes() for file in site.state().rglob("*") if file.is_file()}
        places["command line"] = open(f"/proc/{site.gateway.pid()}/cmdline", "rb").read()
        wanted = {*site.secrets, *names}
        check(len(wanted) > 15 and len(places) > 4, f"{len(wanted)} secrets and {len(places)} places are too few")
        for place, content in places.items():
            for secret in wanted:
                check(secret.encode() not in content, f"{place} has a secret: {secret[:12]}…")
        operated = [json.loads(line) for line in site.log.read_text().splitlines() if '"operated"' in line]
        actions = Counter(line.get("action") for line in operated)
        for action in ("grant", "register_client", "revoke_grant"):
            check(actions[action] > 0, f"the log has no audit line of {action}: {actions}")
        print(f"      {len(wanted)} secrets in {len(places)} places; audit lines {dict(actions)}")


CHECKS = (
    hostile_documents_reach_no_private_address,
    a_stranger_makes_the_gateway_contact_nobody,
    nothing_is_an_open_redirect,
    a_code_works_once_and_for_its_client_only,
    proof_keys_cannot_be_left_out,
    a_refresh_token_that_is_used_again_ends_the_login,
    a_thousand_refreshes_at_once_are_one,
    a_token_is_for_its_endpoint_and_its_gateway,
    the_consent_page_cannot_be_framed_or_forged,
    a_link_of_a_stranger_needs_a_click,
    a_person_who_refuses_gives_no_code,
    names_of_clients_cannot_deceive,
    web_pages_may_be_clients_and_read_no_page,
    ten_thousand_registrations_are_bounded,
    no_secret_of_the_authorization_server_is_shown,
)
