"""The gateway as an authorization server: the program, and people with keys."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import MACHINE_SECRET, Browser, Gateway, Lab, check, free_port, keys_of, registry

#: The server behind each gateway here, its endpoint and its tool.
SERVER, ENDPOINT, TOOL = "machine", "/mcp/machine", "read_note"


def send(url: str, body: Any = None) -> Any:
    """The JSON of the answer to one request of a program, without cookies; an empty mapping if it has none."""
    method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
    page = Browser().request(method, url, text, {"content-type": "application/json"})
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

    def register(self, redirect_uri: str) -> str:
        """The id of a client that registers itself."""
        answer = send(f"{self.base}/oauth/register", {"client_name": "A client", "redirect_uris": [redirect_uri]})
        check("client_id" in answer, f"a registration is answered with {answer}")
        return str(answer["client_id"])


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
    keys, server = keys_of(lab.binary)
    server |= {"public_url": base, "authorization_server": dict(own) if own is not None else {"keys": True}}
    log = lab.out / f"gateway_{name}.log"
    more = {**os.environ, **lab.peers.env(), "MACHINE_SECRET": MACHINE_SECRET, **(env or {})}
    with Gateway(lab.binary, {SERVER: registry(lab.notes_url)[SERVER]}, log, more, server, port, keys["root"]):
        yield Site(base, log, keys)
