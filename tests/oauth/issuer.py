"""The gateway as an authorization server: the program, people with keys, and an OAuth client by hand.

Invariant: each code, token, verifier and state that a client by hand sends or gets is in `Site.secrets`, so that the check of
logs knows what to look for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from lab import MACHINE_SECRET, Answer, Browser, Caller, Gateway, Lab, Page, check, free_port, new_key, registry, until

#: The people with a key, and their roles.
ROLES = {"ann": "caller", "ben": "caller", "rita": "reader", "root": "superuser"}
#: Where claude.ai and ChatGPT receive answers.
CLAUDE = "https://claude.ai/api/mcp/auth_callback"
CHATGPT = "https://chatgpt.com/connector_platform_oauth_redirect"
#: The server behind each gateway here, its endpoint and its tool.
SERVER, ENDPOINT, TOOL = "machine", "/mcp/machine", "read_note"
#: The redirect URI of a client by hand, at which nothing listens: the browser of the test does not go there.
ELSEWHERE = "https://app.example/callback"


def send(
    method: str, url: str, form: Mapping[str, str] | None = None, body: Any = None, headers: Mapping[str, str] | None = None
) -> Page:
    """One request of a program, without cookies."""
    fields = dict(headers or {})
    text = None
    if form is not None:
        text, fields["content-type"] = urlencode(form), "application/x-www-form-urlencoded"
    elif body is not None:
        text, fields["content-type"] = body if isinstance(body, str) else json.dumps(body), "application/json"
    return Browser().request(method, url, text, fields)


def parsed(page: Page) -> Any:
    """The JSON of an answer; an empty mapping if it has none."""
    try:
        return json.loads(page.text)
    except json.JSONDecodeError:
        return {}


def error_of(page: Page) -> str:
    """The error code of an answer with JSON."""
    return str(parsed(page).get("error", "")) if isinstance(parsed(page), dict) else ""


def parameters(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query, keep_blank_values=True)


@dataclass
class Site:
    """One gateway that is an authorization server."""

    lab: Lab
    gateway: Gateway
    #: The public URL, which is the issuer.
    base: str
    log: Path
    keys: dict[str, str]
    secrets: list[str] = field(default_factory=list)

    def browser(self, name: str) -> Browser:
        """A browser of a person who knows a key and has an account of the same name at the login service."""
        return Browser(self.keys.get(name, ""), {"account": name, "decision": "allow"})

    def metadata(self) -> Any:
        page = send("GET", f"{self.base}/.well-known/oauth-authorization-server")
        check(page.status == 200, f"the metadata is answered with {page.status}: {page.text}")
        return parsed(page)

    def register(self, redirect_uris: list[str], **members: Any) -> Page:
        asked = {"client_name": "A client", "redirect_uris": redirect_uris, **members}
        page = send("POST", f"{self.base}/oauth/register", body=asked)
        if token := parsed(page).get("registration_access_token"):
            self.secrets.append(token)
        return page

    def client(self, redirect_uri: str = ELSEWHERE, **more: Any) -> HandClient:
        """A client by hand that registers itself."""
        page = self.register([redirect_uri])
        check(page.status == 201, f"a registration is answered with {page.status}: {page.text}")
        return HandClient(self, parsed(page)["client_id"], redirect_uri, **more)

    def answer(self, token: str, path: str = ENDPOINT) -> Answer:
        """The answer to a call of the tool."""
        return Caller(self.base, token).request(path, "tools/call", {"name": TOOL, "arguments": {}}, {"Mcp-Name": TOOL})

    def call(self, token: str, path: str = ENDPOINT) -> int:
        """The status of a call of the tool."""
        return self.answer(token, path).status

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the program for an operator."""
        env = {"SWITCHYARD_URL": self.base, "SWITCHYARD_KEY": self.keys["root"]}
        return self.lab.run(str(self.lab.binary), *words, env=env)

    def state(self) -> Path:
        return self.log.with_suffix(".state")

    def records(self) -> list[Path]:
        """The files of grants and registrations, whose ids have a dash."""
        tables = ("clients", "grants")
        return [file for file in self.state().rglob("*-*") if file.is_file() and file.parent.name in tables]


def challenge(verifier: str) -> str:
    """The challenge of a verifier (PKCE, `S256`)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


@dataclass
class HandClient:
    """An OAuth client whose requests the test makes one by one."""

    site: Site
    id: str
    redirect_uri: str
    resource: str | None = None
    scope: str | None = None
    verifier: str = ""
    state: str = ""

    def __post_init__(self) -> None:
        self.resource = self.resource or f"{self.site.base}{ENDPOINT}"

    def url(self, **changes: str | None) -> str:
        """The URL of an authorization request. A change to None leaves the parameter out."""
        self.verifier, self.state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        self.site.secrets += [self.verifier, self.state]
        asked = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": challenge(self.verifier),
            "code_challenge_method": "S256",
            "resource": self.resource,
            "scope": self.scope,
            **changes,
        }
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return f"{self.site.base}/oauth/authorize?{query}"

    def authorize(self, browser: Browser, **changes: str | None) -> str:
        """The code that the client gets when the person of the browser agrees."""
        page = browser.visit(self.url(**changes))
        return self.code_at(page.url, page.text)

    def code_at(self, url: str, text: str = "") -> str:
        """The code of the answer at `url`, whose other parameters are checked."""
        check(url.startswith(self.redirect_uri), f"the login ends at {url}: {text[:500]}")
        found = parameters(url)
        check(found.get("state") == [self.state], f"the state is {found.get('state')}")
        check(found.get("iss") == [self.site.base], f"the issuer is {found.get('iss')}")
        check(len(found.get("code", [])) == 1, f"the answer has no code: {found}")
        self.site.secrets.append(found["code"][0])
        return found["code"][0]

    def redeem(self, code: str, /, **changes: str | None) -> Page:
        asked = {
            "grant_type": "authorization_code",
            "client_id": self.id,
            "code": code,
            "code_verifier": self.verifier,
            "redirect_uri": self.redirect_uri,
            "resource": self.resource,
            **changes,
        }
        return self._token(asked)

    def refresh(self, token: str, /, **changes: str | None) -> Page:
        return self._token({"grant_type": "refresh_token", "client_id": self.id, "refresh_token": token, **changes})

    def revoke(self, token: str) -> Page:
        return send("POST", f"{self.site.base}/oauth/revoke", form={"token": token, "client_id": self.id})

    def log_in(self, name: str = "ann", **changes: str | None) -> dict[str, Any]:
        """The tokens of a whole login."""
        page = self.redeem(self.authorize(self.site.browser(name), **changes))
        check(page.status == 200, f"the code is answered with {page.status}: {page.text}")
        tokens: dict[str, Any] = parsed(page)
        return tokens

    def _token(self, asked: Mapping[str, str | None]) -> Page:
        form = {name: value for name, value in asked.items() if value is not None}
        page = send("POST", f"{self.site.base}/oauth/token", form=form)
        found = parsed(page)
        self.site.secrets += [found[name] for name in ("access_token", "refresh_token") if name in found]
        return page


#: People with their keys, and the entries of these in the configuration file.
Keys = dict[str, tuple[str, dict[str, str]]]


def new_keys(lab: Lab) -> Keys:
    return {person: new_key(lab.binary, person, role) for person, role in ROLES.items()}


@contextmanager
def issuing(
    lab: Lab,
    name: str,
    own: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    made: Keys | None = None,
    public_url: str | None = None,
    **settings: Any,
) -> Iterator[Site]:
    """Starts a gateway with the settings `own` of its authorization server, for the people of `made`."""
    port, made = port or free_port(), made or new_keys(lab)
    base = public_url or f"http://localhost:{port}"
    keys = {person: key for person, (key, _) in made.items()}
    server = {
        "public_url": base,
        "auth_mode": "api_key",
        "api_keys": [entry for _, entry in made.values()],
        "authorization_server": dict(own) if own is not None else {"keys": True},
        **settings,
    }
    log = lab.out / f"gateway_{name}.log"
    behind = {SERVER: registry(lab.notes_url)["machine"], "other": registry(lab.notes_url)["machine"]}
    more = {**os.environ, **lab.peers.env(), "MACHINE_SECRET": MACHINE_SECRET, **(env or {})}
    with Gateway(lab.binary, behind, log, more, server, port, keys["root"]) as gateway:
        yield Site(lab, gateway, base, log, keys, [*keys.values()])


def settled(what: str, holds: Any, seconds: float = 1.0) -> float:
    """Waits until `holds()`, and returns after how many seconds it did. It must within `seconds`."""
    started = time.monotonic()
    until(what, holds, seconds)
    return time.monotonic() - started


__all__ = ["CHATGPT", "CLAUDE", "ELSEWHERE", "ENDPOINT", "HandClient", "SERVER", "Site", "TOOL", "challenge", "error_of", "issuing", "new_keys", "parameters", "parsed", "send", "settled"]
