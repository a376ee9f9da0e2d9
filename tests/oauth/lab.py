"""The world of this test: an authorization server, a protected MCP server, gateways in front of it, and three principals.

Invariant: everything listens on loopback and ends with its `with` block, as in `tests/lab/programs.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from browser import Browser, Page  # noqa: E402
from caller import Answer, Caller, text_of  # noqa: E402
from checks import Wrong, check, new_key  # noqa: E402
from programs import Gateway, Peers, free_port, start_listening  # noqa: E402

#: What the account `ann` reads from the protected server, and so on.
NOTES = {
    "ann": "ann: the harvest was good",
    "ben": "ben: the boat leaks",
    "cas": "cas: the cat is back",
    "dan": "dan: nothing new",
    "machine": "machine: no rest for machines",
}
#: Callers with an account of the same name.
PEOPLE = ("ann", "ben", "cas", "dan")
#: Secrets of this test, which must be found nowhere.
MACHINE_SECRET = "canary-of-the-machine-4f1d9a"
SCOPES = ["openid", "email", "notes:read"]


def until(what: str, ready: Callable[[], Any], patience: float = 15) -> Any:
    """Asks until `ready` has something, and returns it."""
    deadline = time.monotonic() + patience
    while True:
        if found := ready():
            return found
        if time.monotonic() > deadline:
            raise Wrong(f"{what}: not within {patience} s")
        time.sleep(0.05)


class Control:
    """The remote control of one of the two servers."""

    def __init__(self, port: int) -> None:
        self._api = Caller(f"http://127.0.0.1:{port}")

    def state(self) -> Any:
        return self._api.ask("GET", "/state").body

    def tell(self, what: str, **settings: Any) -> None:
        answer = self._api.ask("POST", f"/{what}", settings)
        check(answer.status == 200, f"the control answers {answer} to {what}")


class Login(Control):
    """The authorization server."""

    def requests(self, grant: str, outcome: str = "success") -> int:
        """How many token requests of a grant ended so."""
        return int(self.state()["tokenRequests"].get(grant, {}).get(outcome, 0))


class Notes(Control):
    """The protected server."""

    def requests(self, account: str) -> int:
        """How many requests arrived for an account, without a token, or with an invalid one."""
        counted = self.state()["requests"]
        return sum(counted.get(kind, 0) for kind in (f"of {account}", "without a token", "with an invalid token"))


@dataclass
class Principal:
    """Somebody with a key for the gateway, and with an account at the authorization server."""

    name: str
    key: str
    base: str

    def caller(self) -> Caller:
        """A new client of this principal."""
        return Caller(self.base, self.key)

    def browser(self) -> Browser:
        """A browser without a session, whose person knows the key and has one account."""
        return Browser(self.key, {"account": self.name})

    def log_in(self, server: str = "notes") -> Page:
        """Logs in by the REST API."""
        answer = self.caller().ask("POST", f"/api/v1/mcp/servers/{server}/login")
        check(answer.status < 300, f"a login of {self.name} to {server} is refused: {answer}")
        return self.browser().visit(answer.body["url"])

    def login(self, server: str = "notes") -> Any:
        """What the gateway says of the login."""
        answer = self.caller().ask("GET", f"/api/v1/mcp/servers/{server}/login")
        check(answer.status == 200, f"the login of {self.name} to {server} is not shown: {answer}")
        return answer.body

    def log_out(self, server: str = "notes") -> Answer:
        return self.caller().ask("DELETE", f"/api/v1/mcp/servers/{server}/login")

    def read(self, server: str = "notes") -> str | None:
        """The note of the account; None if the call does not succeed."""
        return text_of(self.caller().call(server, "read_note"))

    def log_in_well(self, server: str = "notes") -> None:
        """Logs in, and calls."""
        page = self.log_in(server)
        check(page.status == 200, f"the login of {self.name} ends at {page.url} with {page.status}: {page.text}")
        until(f"{self.name} can call {server}", lambda: self.read(server))

    def ensure_logged_in(self, server: str = "notes") -> None:
        """Logs in if need be, and calls, so that the token is not an expired one."""
        if self.login(server)["state"] != "logged_in":
            self.log_in_well(server)
        until(f"{self.name} can call {server}", lambda: self.read(server))


@dataclass
class Lab:
    """All that runs."""

    binary: Path
    peers: Peers
    out: Path
    issuer: str
    auth: Login
    notes: Notes
    notes_url: str
    gateway: Gateway
    principals: dict[str, Principal]

    @property
    def base(self) -> str:
        return self.gateway.base

    def run(self, *words: str, env: Mapping[str, str] | None = None, patience: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end."""
        return subprocess.run(
            words, env={**self.peers.env(), **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=patience, check=False,
        )  # fmt: skip

    def client(self, program: str, file: str, ask: Mapping[str, Any], password: str = "") -> Any:
        """Runs a client of an SDK for the person who knows the password; what it printed last."""
        env = {"BROWSER_PASSWORD": password}
        done = self.run(self.peers.program(program), str(HERE / "clients" / file), json.dumps(ask), env=env)
        check(done.returncode == 0, f"{file} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def registry(url: str) -> dict[str, Any]:
    """The servers of the gateway: the protected one with an account for each principal, for all, and for a machine."""
    machine = {"grant": "client_credentials", "client_id": "machine", "client_secret": "${MACHINE_SECRET}"}
    return {
        "notes": {"url": url, "auth": {"oauth": {"per": "principal", "scopes": SCOPES}}},
        "shared": {"url": url, "auth": "oauth"},
        "machine": {"url": url, "auth": {"oauth": {**machine, "scopes": ["notes:read"]}}},
    }


@contextmanager
def lab(binary: Path, peers: Peers, out: Path) -> Iterator[Lab]:
    """Starts everything, and ends it."""
    with ExitStack() as stack:
        ports = [free_port() for _ in range(4)]
        issuer, url = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[2]}/mcp"
        machine = {
            "client_id": "machine", "client_secret": MACHINE_SECRET, "grant_types": ["client_credentials"],
            "redirect_uris": [], "response_types": [],
        }  # fmt: skip
        os.environ["AUTHORIZATION_SERVER_CLIENTS"] = json.dumps([machine])
        words = [peers.program("peer-node"), str(HERE / "authorization_server.mjs"), *map(str, ports[:2])]
        stack.enter_context(start_listening("oidc-provider", words, ports[1], out / "authorization_server.log", peers))
        words = [peers.program("peer-python"), str(HERE / "protected_server.py"), *map(str, ports[2:]), issuer]
        stack.enter_context(start_listening("fastmcp", words, ports[3], out / "protected_server.log", peers))
        roles = {**dict.fromkeys(PEOPLE, "caller"), "root": "superuser"}
        keys = {name: new_key(binary, name, role) for name, role in roles.items()}
        settings = {
            "auth_mode": "api_key",
            "anonymous_role": "reader",
            "api_keys": [entry for _, entry in keys.values()],
        }
        env = {**os.environ, "MACHINE_SECRET": MACHINE_SECRET}
        gateway = stack.enter_context(Gateway(binary, registry(url), out / "gateway.log", env, settings))
        principals = {name: Principal(name, key, gateway.base) for name, (key, _) in keys.items()}
        yield Lab(binary, peers, out, issuer, Login(ports[1]), Notes(ports[3]), url, gateway, principals)


@contextmanager
def callback() -> Iterator[str]:
    """A URL at which a redirect may end."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/callback"
    finally:
        server.shutdown()


__all__ = ["Browser", "Caller", "Gateway", "HERE", "Lab", "NOTES", "PEOPLE", "Page", "Peers", "Principal", "Wrong", "callback", "check", "free_port", "lab", "new_key", "start_listening", "text_of", "until"]
