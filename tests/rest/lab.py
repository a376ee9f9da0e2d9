"""The world of this test: gateways with the same four servers, and clients that are generated from the document.

Invariant: everything listens on loopback and ends with its `with` block, as in `tests/lab/programs.py`.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from checks import Wrong, new_key  # noqa: E402
from programs import Failed, Gateway, Peers, output  # noqa: E402

ROOT = HERE.parent.parent
DOCUMENT = ROOT / "openapi" / "switchyard.json"
#: Nothing listens there.
NOWHERE = "http://127.0.0.1:1/mcp"


@dataclass(frozen=True)
class Lab:
    """What the checks need: the gateway's program, the tools that are installed, and a folder for what is made."""

    binary: Path
    tools: Path
    node: Path
    out: Path

    def run(self, *words: str | Path, cwd: Path | None = None, patience: float = 300) -> str:
        """Runs a program to its end, and returns its output."""
        return output(words, patience, cwd=cwd or self.out)

    def python(self, name: str) -> Path:
        """A program of the virtual environment."""
        return self.tools / "venv" / "bin" / name

    @contextmanager
    def gateway(self, name: str, settings: dict[str, Any] | None = None, key: str = "") -> Iterator[Gateway]:
        """A gateway with the four servers. `key` is that of a reader, if it wants one."""
        servers = {
            "issues": {"command": sys.executable, "args": [str(HERE.parent / "lab" / "issues_server.py")]},
            "handbook": {"transport": "builtin", "builtin": "handbook", "handbook": {"path": str(ROOT / "docs")}},
            "gone": {"url": NOWHERE},
            "accounts": {"url": NOWHERE, "auth": "oauth"},
        }
        log = self.out / f"{name}.log"
        with Gateway(self.binary, servers, log, settings=settings, key=key) as gateway:
            yield gateway

    @contextmanager
    def guarded(self, name: str) -> Iterator[tuple[Gateway, str, str]]:
        """A gateway that answers nobody without a key; the keys of a caller and of a superuser."""
        (caller, of_caller), (admin, of_admin) = (new_key(self.binary, role, role) for role in ("caller", "superuser"))
        settings = {"auth_mode": "api_key", "api_keys": [of_caller, of_admin]}
        with self.gateway(name, settings, caller) as gateway:
            yield gateway, caller, admin


def variant(out: Path, needs_credential: bool) -> Path:
    """The document as it is for a gateway with authentication: no operation can be used without a credential."""
    if not needs_credential:
        return DOCUMENT
    document = json.loads(DOCUMENT.read_text())
    document["security"] = [ways for ways in document["security"] if ways]
    # Open to everybody whatever the mode; a credential shows more.
    document["paths"]["/health"]["get"]["security"] = [{}]
    path = out / "guarded.json"
    path.write_text(json.dumps(document))
    return path


__all__ = ["DOCUMENT", "Failed", "HERE", "Lab", "Peers", "Wrong", "variant"]
