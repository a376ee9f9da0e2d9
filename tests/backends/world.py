"""What a run is made of: a real R2R, a real Redis, and the gateway in front of both.

Invariants: everything listens on loopback, on ports that were free; all data lies below the folder of the
run; only what was started here is ended, by its own pid. Programs end with their `with` block.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from checks import Checks as Checks  # noqa: E402
from programs import Failed as Failed  # noqa: E402
from programs import Program, free_port, listening_port  # noqa: E402

#: Seconds that the lab may take to start; installing it is not counted, that was done before.
LAB_PATIENCE = 300


def home() -> Path:
    """Where the packages of R2R are kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SWITCHYARD_TESTS") or cache / "switchyard-tests") / "backends"


def until(what: str, seconds: float, ready: Callable[[], Any], pause: float = 0.1) -> Any:
    """Asks until `ready` has something, which is returned; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        if found := ready():
            return found
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds:g} s")
        time.sleep(pause)


class Lab:
    """R2R with its database and its models, by `lab/r2r-up.sh`."""

    def __init__(self, home: Path, run: Path) -> None:
        self.run, self.log = run, run / "r2r.log"
        ports = {f"R2R_LAB_{name}PORT": str(free_port()) for name in ("", "PG_", "STUB_")}
        self._env = {**os.environ, **ports, "R2R_LAB_HOME": str(home), "R2R_LAB_RUN": str(run)}
        self.url = self.email = self.password = self.stub = ""

    def __enter__(self) -> Lab:
        try:
            self.up()
        except BaseException:
            self._script("down")
            raise
        return self

    def __exit__(self, *how: Any) -> None:
        self._script("down")

    def up(self, **settings: str) -> None:
        """Starts whatever does not run; `ACCESS_MINUTES="0.1"` and the like hold for what is started now."""
        said = self._script("up", {f"R2R_LAB_{name}": value for name, value in settings.items()})
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        self.url, self.stub = found["R2R_API_URL"], found["STUB_URL"]
        self.email, self.password = found["R2R_SERVICE_EMAIL"], found["R2R_SERVICE_PASSWORD"]

    def again(self, **settings: str) -> None:
        """Ends R2R in order and starts it with other settings."""
        self._script("stop-r2r")
        self.up(**settings)

    def answered(self, request: str, since: int = 0) -> list[str]:
        """The lines of R2R's log, from the byte `since` on, about requests such as `POST /v3/users/login`."""
        with self.log.open("rb") as log:
            log.seek(since)
            lines = log.read().decode(errors="replace").splitlines()
        return [line for line in lines if f'"{request}' in line]

    def mark(self) -> int:
        """Where R2R's log ends now."""
        return self.log.stat().st_size

    def _script(self, command: str, env: Mapping[str, str] | None = None) -> str:
        with (self.run.parent / "lab.log").open("ab") as log:
            done = subprocess.run(
                [str(HERE / "lab" / "r2r-up.sh"), command],
                env={**self._env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=LAB_PATIENCE,
                check=False,
            )
        if done.returncode != 0 and command == "up":
            raise Failed(f"the lab did not start, see {log.name}")
        return done.stdout.decode()


class Redis:
    """A redis-server that keeps nothing on disk, and the few commands that a test sends to it."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise Failed("redis-server is missing; on Debian: apt-get install redis-server")
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._program = Program("redis-server", command, folder / "redis.log")

    def __enter__(self) -> Redis:
        try:
            self._program.wait_until("answers", self._answers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *how: Any) -> None:
        self._program.__exit__(None, None, None)

    def keys(self) -> list[str]:
        """All keys."""
        return [key.decode() for key in self.command("KEYS", "*")]

    def command(self, *words: str) -> Any:
        """One command and its answer (RESP2)."""
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as wire:
            wire.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
            return _resp(wire.makefile("rb"))

    def _answers(self) -> bool:
        try:
            return bool(self.command("PING") == b"PONG")
        except OSError:
            return False


def _resp(answer: Any) -> Any:
    kind, rest = (line := answer.readline())[:1], line[1:].strip()
    if kind == b"*":
        return [_resp(answer) for _ in range(int(rest))]
    if kind == b"$":
        return None if rest == b"-1" else answer.read(int(rest) + 2)[:-2]
    if kind == b"-":
        raise Failed(f"redis: {rest.decode()}")
    return int(rest) if kind == b":" else rest


class Gateway:
    """`switchyard serve` with one registry; `url` is its base, without a path."""

    def __init__(self, binary: Path, registry: Mapping[str, Any], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        config = log.with_suffix(".yaml")
        config.write_text(json.dumps({"server": {"log_format": "json"}, **registry}, indent=1))  # JSON is YAML
        self.name, self.log = log.stem, log
        command = [str(binary), "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
        self._program = Program("switchyard", command, log)
        self.port = 0
        self.url = ""

    def __enter__(self) -> Gateway:
        try:
            self.port = self._program.wait_until("listens", lambda: listening_port(self.log))
            self.url = f"http://127.0.0.1:{self.port}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *how: Any) -> None:
        self._program.__exit__(None, None, None)

    def pid(self) -> int:
        return self._program.pid()


def registry(lab: Lab, project: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """A registry with R2R alone. Changes: `r2r` and `server` for its members, others for the whole file."""
    options = {
        "email": lab.email,
        "password": lab.password,
        "project": project,
        "collection_mapping_file": str(folder / f"{project}.json"),
        "ingest_roots": [str(folder / "documents")],
        **changes.pop("r2r", {}),
    }
    server = {"transport": "builtin", "builtin": "r2r", "url": lab.url, "r2r": options, **changes.pop("server", {})}
    return {"mcp_servers": {"r2r": server}, **changes}
