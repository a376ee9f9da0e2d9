"""Starting the programs of a run and ending them again: the gateway, and the servers behind it.

Invariant: only what was started here is ended, by its own handle. Everything listens on loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

#: Seconds within which a program must be ready.
PATIENCE = 60
#: States of a server that is connected and listed, could not be, waits for a login, or is not contacted.
SETTLED = ("ready", "failed", "login_required", "disabled", "not_configured")


def listening_port(log: Path) -> int | None:
    """Where the gateway that writes `log` listens, once it does."""
    for line in log.read_text(errors="replace").splitlines():
        if '"listening"' in line:
            return int(json.loads(line)["address"].rsplit(":", 1)[1])
    return None


class Failed(Exception):
    """A program could not be started, or a run had no result."""


def until(what: str, ready: Callable[[], Any], seconds: float = 15, pause: float = 0.05) -> Any:
    """Asks until `ready` has something, which is returned; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
    return found


def output(command: Sequence[Any], seconds: float = 300, code: int | None = 0, **options: Any) -> str:
    """Runs a program to its end, and returns what it printed. Another exit code is a failure, unless none is expected."""
    words = [str(word) for word in command]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    try:
        done = subprocess.run(words, timeout=seconds, check=False, **options)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"no end within {seconds:g} s: {' '.join(words)}") from late
    if code not in (None, done.returncode):
        raise Failed(f"exit code {done.returncode}, not {code}: {' '.join(words)}\n{done.stdout[-6000:]}")
    return done.stdout


class Program:
    """A running program whose output is in a file; it ends with the `with` block."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name, self.log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=log.parent
            )

    def wait_until(self, what: str, ready: Callable[[], Any]) -> Any:
        """Asks until `ready` has something; fails when the program ends or patience does."""

        def asked() -> Any:
            if not (found := ready()) and self._process.poll() is not None:
                raise Failed(f"{self.name} ended with {self._process.returncode}, see {self.log}")
            return found

        return until(f"{self.name}: {what}, see {self.log}", asked, PATIENCE, 0.01)

    def first_line(self) -> str:
        """Waits for the first line of the output."""
        line: str = self.wait_until("says something", lambda: "\n" in (text := self.log.read_text()) and text)
        return line.splitlines()[0]

    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        """Sent while it runs; afterwards its pid may be another program's."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Waits for its end, and returns its exit code."""
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Peers:
    """The folder that `scripts/peers` filled: the suite, its Node, and the servers of other makers."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.client = next(folder.glob("sdist/mcp-*/.github/actions/conformance/client.py"), None)
        if self.client is None or not (self.bin / "conformance").exists():
            raise Failed(f"the peers in {folder} are not complete: run `scripts/peers`")

    @staticmethod
    def of_environment() -> Peers:
        folder = os.environ.get("SWITCHYARD_PEERS")
        if not folder:
            raise Failed("SWITCHYARD_PEERS is not set: set it to what `scripts/peers` prints")
        return Peers(Path(folder).resolve())

    def program(self, name: str) -> str:
        return str(self.bin / name)

    def env(self) -> dict[str, str]:
        """Our environment, with the pinned interpreters first."""
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}


def start_listening(name: str, command: Sequence[str], port: int, log: Path, env: Mapping[str, str]) -> Program:
    """Starts a server and waits until it accepts on its port."""
    program = Program(name, command, log, env)
    try:
        program.wait_until("listens", lambda: accepts(port))
    except Failed:
        program.__exit__(None, None, None)
        raise
    return program


def free_port() -> int:
    """A port that was free just now, for programs that cannot choose one themselves.

    The system gives none of this range to a connection, so that nothing takes it before the program listens.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Gateway:
    """`switchyard serve` with a registry; `url` is its endpoint over all servers."""

    def __init__(
        self,
        binary: Path,
        servers: Mapping[str, Any],
        log: Path,
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        port: int = 0,
        key: str = "",
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        config = log.with_suffix(".yaml")
        # Verbatim: names as at the server, and the first server wins. JSON is YAML.
        registry = {"mcp_servers": servers, "tool_names": "verbatim", "server": {"log_format": "json", **(settings or {})}}
        config.write_text(json.dumps(registry, indent=1))
        command = [str(binary), "serve", "--config", str(config), "--listen", f"127.0.0.1:{port}"]
        # Each gateway has a vault of its own.
        state = {"XDG_STATE_HOME": str(log.with_suffix(".state"))}
        self._program = Program("switchyard", command, log, {**(env or os.environ), **state})
        self.url = self.base = ""
        # For the question whether all servers have answered; none where everybody may read.
        self._key = key

    def __enter__(self) -> Gateway:
        try:
            self.port = self._program.wait_until("listens", lambda: listening_port(self._program.log))
            # A name the suite takes for local, which its check of foreign hosts insists on.
            self.base = f"http://localhost:{self.port}"
            self.url = f"{self.base}/mcp"
            self._program.wait_until("all servers have answered", lambda: _settled(self.port, self._key))
        except BaseException:
            self.__exit__()
            raise
        return self

    def pid(self) -> int:
        return self._program.pid()

    def __exit__(self, *how: Any) -> None:
        self._program.__exit__(None, None, None)


def _settled(port: int, key: str) -> bool:
    """Whether no server is still connecting."""
    credential = {"authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/mcp/servers", headers=credential)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return all(server["state"] in SETTLED for server in json.load(answer)["servers"])
