"""Logins at the gateway of people who sign in at a login service: `oidc-provider`, healthy, down, and as Entra ID is.

The accounts `ann` and `ben` are in the group `staff`, `ben` in `ops` too, `cas` in none. The email address of `dan` is not
verified.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from issuer import HandClient, Site, issuing, parameters, parsed, send
from issuer_logins import SDKS, run_sdk
from lab import NOTES, Browser, Lab, Page, callback, check, free_port, until

#: The path at the gateway to which the login service sends browsers back.
CALLBACK = "/oauth/login-callback"


@contextmanager
def behind(lab: Lab, name: str, **rules: Any) -> Iterator[Site]:
    """A gateway whose people sign in at the login service, if `rules` accept them."""
    port = free_port()
    asked = {
        "redirect_uris": [f"http://localhost:{port}{CALLBACK}"], "grant_types": ["authorization_code"],
        "response_types": ["code"], "token_endpoint_auth_method": "client_secret_basic",
    }  # fmt: skip
    client = parsed(send("POST", f"{lab.issuer}/reg", body=asked))
    check("client_id" in client, f"the login service registers no client: {client}")
    login = {
        "issuer": lab.issuer,
        "client_id": client["client_id"],
        "client_secret": "${LOGIN_SECRET}",
        **(rules or {"allow": {"domains": ["example.com"]}}),
    }
    with issuing(lab, name, {"login": login}, {"LOGIN_SECRET": client["client_secret"]}, port) as site:
        site.secrets.append(client["client_secret"])
        # They have no key of the gateway.
        site.keys = {"root": site.keys["root"]}
        yield site


def text_of_page(page: Page) -> str:
    body = page.text.partition("<body>")[2] or page.text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def asks_to_allow(page: Page) -> bool:
    """Whether the page asks a person who is signed in."""
    return any(("decision", "allow") in form.buttons for form in page.forms)


def people_of_a_login_service_log_in(lab: Lab) -> None:
    with behind(lab, "provider") as site:
        client = site.client()
        for account in ("ann", "ben"):
            browser = site.browser(account)
            page = parsed(client.redeem(client.authorize(browser)))
            check(page.get("scope") == "mcp:read mcp:call", f"{account} gets {page}")
            check(site.call(page["access_token"]) == 200, f"{account} cannot call")
            shown = [one for one in browser.pages if f"{account}@example.com" in one.text and one.url.startswith(site.base)]
            check(shown, f"no page of the gateway names {account}@example.com")
            logins = lab.auth.requests("authorization_code")
            client.authorize(browser, prompt="consent")
            check(lab.auth.requests("authorization_code") == logins, "a person with a session signs in again")
        renewed = client.refresh(page["refresh_token"])
        check(renewed.status == 200, f"a renewal is answered with {renewed.status}: {renewed.text}")
        stored = b"".join(file.read_bytes() for file in site.state().rglob("*") if file.is_file())
        for token in lab.auth.state()["tokens"]:
            check(token.encode() not in stored + site.log.read_bytes(), "a token of the login service is stored or logged")


def sdk_clients_log_in_by_a_login_service(lab: Lab) -> None:
    with behind(lab, "provider_sdk") as site, callback() as end:
        for sdk in SDKS:
            found = run_sdk(lab, site, sdk, end, ["call", "refresh", "call"])
            check(found["text"] == NOTES["machine"] and len(found["urls"]) == 1, f"the {sdk} client got {found}")


def rules_decide_about_people(lab: Lab) -> None:
    roles = {"roles_claim": "groups", "role_map": {"ops": "superuser", "staff": "caller"}, "scopes": ["email", "groups"]}
    for name, rules, accepted, refused in (
        ("domain", {"allow": {"domains": ["example.com"]}}, {"ann": "mcp:read mcp:call", "cas": "mcp:read mcp:call"}, ("dan",)),
        ("email", {"allow": {"emails": ["Ann@example.com"]}}, {"ann": "mcp:read mcp:call"}, ("ben", "cas", "dan")),
        ("other", {"allow": {"domains": ["ample.com", "sub.example.com", "com"]}}, {}, ("ann", "dan")),
        ("group", {"allow": {"groups": ["ops"]}, "scopes": ["groups"]}, {"ben": "mcp:read mcp:call"}, ("ann", "cas")),
        ("roles", roles, {"ann": "mcp:read mcp:call", "ben": "mcp:read mcp:call mcp:admin"}, ("cas",)),
    ):
        with behind(lab, f"provider_{name}", **rules) as site:
            client = site.client(scope="mcp:admin")
            for account, scope in accepted.items():
                tokens = client.log_in(account)
                check(tokens["scope"] == scope, f"{name}: {account} gets {tokens['scope']}")
            for account in refused:
                page = site.browser(account).visit(client.url())
                check(page.status in (401, 403), f"{name}: {account} ends at {page.url} with {page.status}: {text_of_page(page)}")
                check(page.url.startswith(site.base), f"{name}: {account} is sent to {page.url}")


def a_service_that_refuses_resources_works(lab: Lab) -> None:
    lab.auth.tell("entra", on=True)
    try:
        with behind(lab, "entra") as site:
            tokens = site.client().log_in("ann")
            check(site.call(tokens["access_token"]) == 200, "the login does not work")
            found = lab.auth.state()["withResource"]
            check(found == 0, f"{found} requests named a resource")
        other = {"redirect_uris": ["http://localhost:1/callback"], "token_endpoint_auth_method": "none"}
        client = parsed(send("POST", f"{lab.issuer}/reg", body=other))["client_id"]
        asked = {
            "response_type": "code", "client_id": client, "scope": "openid", "code_challenge": "x" * 43,
            "code_challenge_method": "S256", "resource": "https://gateway.example.org/mcp",
        }  # fmt: skip
        refused = send("GET", f"{lab.issuer}/auth?{urlencode(asked)}").headers.get("location", "")
        check("AADSTS9010010" in refused, f"the service accepts a resource, so this shows nothing: {refused}")
    finally:
        lab.auth.tell("entra", on=False)


def a_service_that_is_down_is_named_on_the_page(lab: Lab) -> None:
    with behind(lab, "provider_down") as site:
        client = site.client()
        before = client.log_in("ann")
        host = urlsplit(lab.issuer).hostname or ""
        for how in ("failing", "closed"):
            lab.auth.tell("down", how=how)
            try:
                # A gateway that was just started has no metadata of the service, and one that runs may have it.
                with behind_down(lab, site, f"provider_{how}") as fresh:
                    page = fresh.browser("ann").visit(HandClient(fresh, fresh.client().id, client.redirect_uri).url())
                    check(page.status == 503 and page.url.startswith(fresh.base), f"{how}: the way ends at {page.url} with {page.status}")
                    check("retry-after" in page.headers, f"{how}: the page does not say when to try again: {page.headers}")
                    shown = text_of_page(page)
                    check(host in shown and "login service" in shown, f"{how}: the page says {shown}")
                # Logins that exist do not need the service.
                check(site.call(before["access_token"]) == 200, f"{how}: a login that exists does not work")
                renewed = client.refresh(before["refresh_token"])
                check(renewed.status == 200, f"{how}: a renewal is answered with {renewed.status}")
                before = parsed(renewed)
            finally:
                lab.auth.tell("up")
        until("people can log in again", lambda: client.log_in("ben", prompt="consent"), patience=40)


@contextmanager
def behind_down(lab: Lab, like: Site, name: str) -> Iterator[Site]:
    """A gateway as `like`, which starts while the login service is down."""
    own = json.loads(like.log.with_suffix(".yaml").read_text())["server"]["authorization_server"]
    with issuing(lab, name, own, {"LOGIN_SECRET": "a-secret-that-is-not-used-while-it-is-down"}) as site:
        site.keys = {"root": site.keys["root"]}
        yield site


def a_person_may_cancel_at_the_login_service(lab: Lab) -> None:
    with behind(lab, "provider_cancel") as site:
        client = site.client()
        browser = Browser(wants={"account": ""})
        page = browser.visit(client.url())
        check(page.url.startswith(site.base) and page.status >= 400, f"the way ends at {page.url} with {page.status}")
        check("code=" not in page.url.split("?")[-1] or "error=" in page.url, f"a code is in {page.url}")


def an_answer_of_the_login_service_is_for_one_browser(lab: Lab) -> None:
    """Forwarded, changed, mixed and repeated answers of the login service sign nobody in."""
    with behind(lab, "provider_attacks") as site:
        client = site.client()

        def answered(account: str) -> tuple[Browser, str]:
            """A browser that was sent back, and the URL that it did not open yet."""
            browser = site.browser(account)
            browser.stops_at = f"{site.base}{CALLBACK}"
            page = browser.visit(client.url())
            check(page.url.startswith(f"{site.base}{CALLBACK}"), f"the way ends at {page.url}: {page.text[:500]}")
            browser.stops_at = ""
            return browser, page.url

        browser, url = answered("ann")
        other, other_url = answered("ben")
        own, foreign = parameters(url), parameters(other_url)

        def with_changes(**changes: str | None) -> str:
            found = {name: values[0] for name, values in own.items()} | changes
            return f"{site.base}{CALLBACK}?{urlencode({name: value for name, value in found.items() if value is not None})}"

        for what, who, changed in (
            ("a forwarded answer", Browser(), url),
            ("the answer of another person", other, url),
            ("the code of another person", browser, with_changes(code=foreign["code"][0])),
            ("another issuer", browser, with_changes(iss="https://evil.example")),
            ("no state", browser, with_changes(state=None)),
            ("another state", browser, with_changes(state=own["state"][0][:-4] + "AAAA")),
            ("a made-up code", browser, with_changes(code="made-up")),
        ):
            page = who.open(changed)
            check(page.status >= 400 and page.url.startswith(site.base), f"{what} ends at {page.url} with {page.status}")
            page = who.open(client.url())
            check(page.status == 200 and not asks_to_allow(page), f"{what} signs somebody in: {text_of_page(page)}")
        browser, url = answered("ann")
        check("code=" in browser.visit(url).url, "the answer itself does not work")
        again = browser.open(url)
        check(again.status >= 400, f"a repeated answer ends at {again.url} with {again.status}")


CHECKS = (
    people_of_a_login_service_log_in,
    sdk_clients_log_in_by_a_login_service,
    rules_decide_about_people,
    a_service_that_refuses_resources_works,
    a_service_that_is_down_is_named_on_the_page,
    a_person_may_cancel_at_the_login_service,
    an_answer_of_the_login_service_is_for_one_browser,
)
