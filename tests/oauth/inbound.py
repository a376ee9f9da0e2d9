"""The gateway as a protected server: clients that get a token for it from the authorization server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab import HERE, MACHINE_SECRET, NOTES, Gateway, Lab, callback, check, free_port, registry

#: The client of each SDK: its program, and its file.
CLIENTS = {"python": ("peer-python", "python_sdk.py"), "typescript": ("peer-node", "typescript_sdk.mjs")}


@contextmanager
def gateway(lab: Lab) -> Iterator[str]:
    """Starts a gateway that accepts tokens of the authorization server, and gives the URL that they are for."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp/machine"
    settings = {
        "auth_mode": "jwt",
        "anonymous_role": "reader",
        "jwt": {
            "issuer": lab.issuer,
            "audience": url,
            "algorithm": "RS256",
            "jwks_url": f"{lab.issuer}/jwks",
            "roles_claim": "scope",
        },
    }
    servers = {"machine": registry(lab.notes_url)["machine"]}
    env = {**lab.peers.env(), "MACHINE_SECRET": MACHINE_SECRET}
    with Gateway(lab.binary, servers, lab.out / "gateway_with_tokens.log", env, settings, port):
        yield url


def _gets_in(lab: Lab, client: str, **more: Any) -> None:
    program, file = CLIENTS[client]
    with gateway(lab) as url, callback() as end:
        found = lab.client(program, file, {"url": url, "callback": end, "account": "ann", "tool": "read_note", **more})
    check(found["text"] == NOTES["machine"] and not found["failed"], f"the client got {found}")
    check(len(found["urls"]) == 1, f"the client opened {found['urls']}")


def the_python_sdk_gets_in(lab: Lab) -> None:
    _gets_in(lab, "python", mode="auto")


def the_typescript_sdk_gets_in(lab: Lab) -> None:
    _gets_in(lab, "typescript", browser=[sys.executable, str(HERE.parent / "conformance" / "browser.py")])


CHECKS = (the_python_sdk_gets_in, the_typescript_sdk_gets_in)
