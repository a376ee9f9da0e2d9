"""The world of this test: gateways on a port of their own, two keys, and terminals with a scratch `HOME`.

Invariant: everything listens on loopback and ends with its `with` block, as in `tests/lab/programs.py`.
"""

import hashlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from caller import Caller  # noqa: E402
from checks import check  # noqa: E402
from programs import SETTLED, Program, free_port  # noqa: E402
from terminal import Terminal  # noqa: E402

__all__ = ["Lab", "check"]

#: The keys of this test by role.
KEYS = {"operator": f"swy_operator_{'01' * 24}", "reader": f"swy_reader_{'02' * 24}"}
ROLES = {"operator": "superuser", "reader": "reader"}


class Lab:
    """Programs and folders of one run."""

    server = HERE.parent / "lab" / "issues_server.py"

    def __init__(self, binary: Path, out: Path) -> None:
        self.binary, self.out = binary, out
        self.port = 0
        self._running: Program | None = None

    @contextmanager
    def terminal(self, size: tuple[int, int] = (80, 24)) -> Iterator[Terminal]:
        """A terminal of somebody who has just installed the program, with a port for their gateway."""
        self.port = free_port()
        # Short, because diffs and questions show paths.
        home = Path(tempfile.mkdtemp(prefix="home-", dir=self.out))
        with Terminal(home, f"{self.binary.parent}:/usr/local/bin:/usr/bin:/bin", size) as terminal:
            yield terminal

    def two_servers(self, home: Path) -> Path:
        """Writes a file with a server that answers, one that is away, and two keys."""
        for name, key in KEYS.items():
            (home / f"{name}.key").write_text(key)
        config = home / "mcp_servers.yaml"
        self._write(config, list(KEYS))
        return config

    def _write(self, config: Path, names: list[str]) -> None:
        hashed = {name: hashlib.sha256(KEYS[name].encode()).hexdigest() for name in names}
        keys = [{"id": name, "role": ROLES[name], "hash": f"sha256:{hashed[name]}"} for name in names]
        server = {"listen": f"127.0.0.1:{self.port}", "auth_mode": "api_key", "api_keys": keys}
        # The second one is on the port that discards, where nothing listens.
        # The first one runs also where its tools are remembered.
        issues = {"command": "python3", "args": [str(self.server)], "start": "eager"}
        servers = {"issues": issues, "gone": {"url": "http://127.0.0.1:9/mcp"}}
        # JSON is YAML.
        config.write_text(json.dumps({"server": server, "mcp_servers": servers}, indent=1))

    def revoke(self, config: Path) -> None:
        """Takes the key of the operator out of the file, and makes the gateway read it again."""
        self._write(config, ["reader"])
        check(self._running, "a gateway runs")
        if self._running:
            self._running.signal(signal.SIGHUP)

    @contextmanager
    def gateway(self, config: Path, **variables: str) -> Iterator[None]:
        """The gateway of a file, until every server was tried. It has few variables beside `variables`."""
        home = str(config.parent)
        state = {"XDG_STATE_HOME": f"{home}/state", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home} | variables
        command = [str(self.binary), "serve", "--config", str(config)]
        with Program("switchyard", command, config.parent / "serve.log", state) as program:
            self._running = program
            program.wait_until("all servers were tried", self._is_settled)
            yield
            self._running = None

    def _is_settled(self) -> bool:
        try:
            return all(server["state"] in SETTLED for server in self._caller().servers().values())
        except OSError:
            return False

    def call(self) -> None:
        """Calls a tool as the operator."""
        self._caller().ask("POST", "/api/v1/mcp/call", {"tool": "create_issue", "arguments": {"title": "x"}})

    def _caller(self) -> Caller:
        return Caller(f"http://127.0.0.1:{self.port}", KEYS["operator"])
