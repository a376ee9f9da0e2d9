"""The world of this test: an authorization server, a protected MCP server, gateways in front of it, and three principals.

Invariant: everything listens on loopback and ends with its `with` block, as in `tests/lab/programs.py`.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from browser import Browser, Page  # noqa: E402
from caller import Answer, Caller, text_of  # noqa: E402
from checks import Wrong, check, new_key  # noqa: E402
from programs import Gateway, Peers, free_port, output, start_listening, until  # noqa: E402

BROWSER = [sys.executable, str(HERE.parent / "lab" / "browser.py")]
#: What each account reads from the protected server.
NOTES = {
    "ann": "ann: the harvest was good",
    "ben": "ben: the boat leaks",
    "machine": "machine: no rest for machines",
}
#: The people with a key, and their roles. The callers have an account of the same name.
ROLES = {"ann": "caller", "ben": "caller", "root": "superuser"}
MACHINE_SECRET = "canary-of-the-machine-4f1d9a"
SCOPES = ["openid", "email", "notes:read"]
#: The client of each SDK: its program, and its file.
SDKS = {"python": ("peer-python", "python_sdk.py"), "typescript": ("peer-node", "typescript_sdk.mjs")}


@dataclass
class Principal:
    """Somebody with a key for the gateway, and with an account at the authorization server."""

    name: str
    key: str
    base: str

    def log_in(self, server: str = "notes") -> Page:
        """Logs in by the REST API."""
        answer = self._login("POST", server)
        check(answer.status < 300, f"a login of {self.name} to {server} is refused: {answer}")
        return Browser(self.key, {"account": self.name}).visit(answer.body["url"])

    def login(self, server: str = "notes") -> Any:
        """What the gateway says of the login."""
        answer = self._login("GET", server)
        check(answer.status == 200, f"the login of {self.name} to {server} is not shown: {answer}")
        return answer.body

    def log_out(self, server: str = "notes") -> Answer:
        return self._login("DELETE", server)

    def _login(self, method: str, server: str) -> Answer:
        return Caller(self.base, self.key).ask(method, f"/api/v1/mcp/servers/{server}/login")

    def read(self, server: str = "notes") -> str | None:
        """The note of the account; None if the call does not succeed."""
        return text_of(Caller(self.base, self.key).call(server, "read_note"))


@dataclass
class Lab:
    """All that runs."""

    binary: Path
    peers: Peers
    out: Path
    issuer: str
    control: str
    notes_url: str
    base: str
    principals: dict[str, Principal]

    def auth(self, ttl: int | None = None) -> Any:
        """The state of the authorization server, whose access tokens live for so many seconds from now on."""
        caller = Caller(self.control)
        return (caller.ask("POST", "/ttl", {"seconds": ttl}) if ttl else caller.ask("GET", "/state")).body

    def token_requests(self, grant: str) -> int:
        """How many token requests of a grant were successful. None may fail."""
        counted = self.auth()["tokenRequests"].get(grant, {})
        check(not counted.get("error"), f"the authorization server refused {counted}: {self.auth()['failures']}")
        return int(counted.get("success", 0))

    def sdk(self, sdk: str, ask: Mapping[str, Any], password: str = "") -> Any:
        """Runs the client of an SDK for the person who knows the password; what it printed last."""
        program, file = SDKS[sdk]
        asked = json.dumps({"mode": "auto", "browser": BROWSER, **ask})
        command = [self.peers.program(program), HERE / "clients" / file, asked]
        env = {**self.peers.env(), "BROWSER_PASSWORD": password}
        with (self.out / f"{sdk}.log").open("ab") as log:
            return json.loads(output(command, 60, env=env, stderr=log).splitlines()[-1])


def registry(url: str) -> dict[str, Any]:
    """The servers of the gateway: the protected one with an account for each principal, and for a machine."""
    machine = {"grant": "client_credentials", "client_id": "machine", "client_secret": "${MACHINE_SECRET}"}
    return {
        "notes": {"url": url, "auth": {"oauth": {"per": "principal", "scopes": SCOPES}}},
        "machine": {"url": url, "auth": {"oauth": {**machine, "scopes": ["notes:read"]}}},
    }


def keys_of(binary: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The keys of the people, and the settings of a gateway that knows them."""
    made = {name: new_key(binary, name, role) for name, role in ROLES.items()}
    return {name: key for name, (key, _) in made.items()}, {
        "auth_mode": "api_key",
        "api_keys": [entry for _, entry in made.values()],
    }


@contextmanager
def lab(binary: Path, peers: Peers, out: Path) -> Iterator[Lab]:
    """Starts everything, and ends it."""
    with ExitStack() as stack:
        ports = [free_port() for _ in range(3)]
        issuer, control, notes = (f"http://127.0.0.1:{port}" for port in ports)
        machine = {
            "client_id": "machine", "client_secret": MACHINE_SECRET, "grant_types": ["client_credentials"],
            "redirect_uris": [], "response_types": [],
        }  # fmt: skip
        os.environ["AUTHORIZATION_SERVER_CLIENTS"] = json.dumps([machine])
        words = [peers.program("peer-node"), str(HERE / "authorization_server.mjs"), *map(str, ports[:2])]
        stack.enter_context(start_listening("oidc-provider", words, ports[1], out / "authorization_server.log", peers.env()))
        words = [peers.program("peer-python"), str(HERE / "protected_server.py"), str(ports[2]), issuer]
        stack.enter_context(start_listening("fastmcp", words, ports[2], out / "protected_server.log", peers.env()))
        keys, settings = keys_of(binary)
        env = {**os.environ, "MACHINE_SECRET": MACHINE_SECRET}
        settings["anonymous_role"] = "reader"
        gateway = stack.enter_context(Gateway(binary, registry(f"{notes}/mcp"), out / "gateway.log", env, settings))
        principals = {name: Principal(name, key, gateway.base) for name, key in keys.items()}
        yield Lab(binary, peers, out, issuer, control, f"{notes}/mcp", gateway.base, principals)


def callback() -> str:
    """A URL at which a redirect ends, because nothing listens there."""
    return f"http://127.0.0.1:{free_port()}/callback"


__all__ = ["BROWSER", "Browser", "Caller", "Gateway", "HERE", "Lab", "NOTES", "Page", "Peers", "SDKS", "Wrong", "callback", "check", "free_port", "keys_of", "lab", "registry", "start_listening", "text_of", "until"]
