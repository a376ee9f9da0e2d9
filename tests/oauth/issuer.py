"""The gateway as an authorization server: the program, people with keys, and an OAuth client by hand."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from lab import MACHINE_SECRET, Browser, Caller, Gateway, Lab, Page, check, free_port, new_key, registry

#: The people with a key, and their roles.
ROLES = {"ann": "caller", "root": "superuser"}
#: The server behind each gateway here, its endpoint and its tool.
SERVER, ENDPOINT, TOOL = "machine", "/mcp/machine", "read_note"
#: The redirect URI of a client by hand, at which nothing listens: the browser of the test does not go there.
ELSEWHERE = "https://app.example/callback"


def send(method: str, url: str, form: Mapping[str, str] | None = None, body: Any = None) -> Page:
    """One request of a program, without cookies."""
    if form is not None:
        return Browser().request(method, url, urlencode(form), {"content-type": "application/x-www-form-urlencoded"})
    if body is not None:
        return Browser().request(method, url, json.dumps(body), {"content-type": "application/json"})
    return Browser().request(method, url)


def parsed(page: Page) -> Any:
    """The JSON of an answer; an empty mapping if it has none."""
    try:
        return json.loads(page.text)
    except json.JSONDecodeError:
        return {}


@dataclass
class Site:
    """One gateway that is an authorization server."""

    #: The public URL, which is the issuer.
    base: str
    log: Path
    keys: dict[str, str] = field(default_factory=dict)

    def browser(self, name: str) -> Browser:
        """A browser of a person who knows a key and has an account of the same name at the login service."""
        return Browser(self.keys.get(name, ""), {"account": name, "decision": "allow"})

    def metadata(self) -> Any:
        page = send("GET", f"{self.base}/.well-known/oauth-authorization-server")
        check(page.status == 200, f"the metadata is answered with {page.status}: {page.text}")
        return parsed(page)

    def client(self, redirect_uri: str = ELSEWHERE) -> HandClient:
        """A client by hand that registers itself."""
        asked = {"client_name": "A client", "redirect_uris": [redirect_uri]}
        page = send("POST", f"{self.base}/oauth/register", body=asked)
        check(page.status == 201, f"a registration is answered with {page.status}: {page.text}")
        return HandClient(self, parsed(page)["client_id"], redirect_uri)

    def call(self, token: str) -> int:
        """The status of a call of the tool."""
        asked = {"name": TOOL, "arguments": {}}
        return Caller(self.base, token).request(ENDPOINT, "tools/call", asked, {"Mcp-Name": TOOL}).status

    def state(self) -> Path:
        return self.log.with_suffix(".state")


@dataclass
class HandClient:
    """An OAuth client whose requests the test makes one by one."""

    site: Site
    id: str
    redirect_uri: str
    verifier: str = ""

    def authorize(self, browser: Browser, **more: str) -> str:
        """The code that the client gets when the person of the browser agrees."""
        self.verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": f"{self.site.base}{ENDPOINT}",
            **more,
        }
        page = browser.visit(f"{self.site.base}/oauth/authorize?{urlencode(asked)}")
        check(page.url.startswith(self.redirect_uri), f"the login ends at {page.url}: {page.text[:500]}")
        found = parse_qs(urlsplit(page.url).query)
        check(found.get("state") == [state] and found.get("iss") == [self.site.base], f"the answer is {found}")
        return found["code"][0]

    def redeem(self, code: str) -> Page:
        asked = {"code": code, "code_verifier": self.verifier, "redirect_uri": self.redirect_uri}
        return self._token("authorization_code", asked)

    def refresh(self, token: str) -> Page:
        return self._token("refresh_token", {"refresh_token": token})

    def _token(self, grant: str, asked: Mapping[str, str]) -> Page:
        return send("POST", f"{self.site.base}/oauth/token", {"grant_type": grant, "client_id": self.id, **asked})


@contextmanager
def issuing(
    lab: Lab,
    name: str,
    own: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    public_url: str | None = None,
) -> Iterator[Site]:
    """Starts a gateway with the settings `own` of its authorization server."""
    port = port or free_port()
    base = public_url or f"http://localhost:{port}"
    made = {person: new_key(lab.binary, person, role) for person, role in ROLES.items()}
    keys = {person: key for person, (key, _) in made.items()}
    server = {
        "public_url": base,
        "auth_mode": "api_key",
        "api_keys": [entry for _, entry in made.values()],
        "authorization_server": dict(own) if own is not None else {"keys": True},
    }
    log = lab.out / f"gateway_{name}.log"
    more = {**os.environ, **lab.peers.env(), "MACHINE_SECRET": MACHINE_SECRET, **(env or {})}
    with Gateway(lab.binary, {SERVER: registry(lab.notes_url)[SERVER]}, log, more, server, port, keys["root"]):
        yield Site(base, log, keys)


__all__ = ["ENDPOINT", "Site", "TOOL", "issuing", "parsed", "send"]
