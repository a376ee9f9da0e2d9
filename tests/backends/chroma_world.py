"""What the Chroma part is made of: a real Chroma, the embedding model, and the gateway in front of both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from world import HERE, Failed, Program, free_port

#: Seconds that the packages may take to be installed, once.
INSTALL_PATIENCE = 900
RECORDS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def ask(method: str, url: str, body: Any = None) -> Any:
    """One request straight to a service, past the gateway."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def install(home: Path) -> dict[str, str]:
    """Where the programs are, installed if they are not there."""
    done = subprocess.run(
        [str(HERE / "lab" / "chroma-up.sh"), "install"],
        env={**os.environ, "CHROMA_LAB_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=INSTALL_PATIENCE,
        check=False,
    )
    if done.returncode:
        raise Failed("Chroma could not be installed")
    return dict(line.split("=", 1) for line in done.stdout.decode().splitlines() if "=" in line)


class Stub:
    """The embedding model behind the API of OpenAI."""

    def __init__(self, python: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.log = folder / "stub.jsonl"
        command = [python, str(HERE / "lab" / "embed-stub.py"), "--port", str(self.port), "--log", str(self.log)]
        self._program = Program("embed-stub", command, folder / "stub.log")

    def __enter__(self) -> Stub:
        self._program.wait_until("answers", lambda: _answers(f"http://127.0.0.1:{self.port}/healthz"))
        return self

    def __exit__(self, *how: Any) -> None:
        self._program.__exit__(None, None, None)

    def embedded(self) -> int:
        """Texts that vectors were made of so far."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(one["inputs"] for one in map(json.loads, lines) if one["status"] == 200)


class Chroma:
    """A Chroma that keeps its data in a folder and can be killed and started again."""

    def __init__(self, command: str, folder: Path) -> None:
        self._command, self._folder, self._starts = command, folder, 0
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._program: Program | None = None

    def __enter__(self) -> Chroma:
        self.start()
        return self

    def __exit__(self, *how: Any) -> None:
        if self._program:
            self._program.__exit__(None, None, None)

    def start(self) -> None:
        """Starts it on its port and its data."""
        self._starts += 1
        command = [self._command, "run", "--path", str(self._folder / "data"), "--host", "127.0.0.1"]
        command += ["--port", str(self.port)]
        env = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
        self._program = Program("chroma", command, self._folder / f"chroma-{self._starts}.log", env)
        self._program.wait_until("answers", lambda: _answers(f"{self.url}/api/v2/heartbeat"))

    def kill(self) -> None:
        """It is gone without a word."""
        if self._program:
            self._program.signal(signal.SIGKILL)
            self._program.__exit__(None, None, None)

    def collection(self, name: str) -> str:
        """The id of a collection, by the name that Chroma has."""
        return str(ask("GET", f"{self.url}{RECORDS}/{name}")["id"])

    def ids(self, name: str) -> set[str]:
        """The ids of all records of a collection, by the name that Chroma has."""
        asked = {"include": [], "limit": 100_000}
        return set(ask("POST", f"{self.url}{RECORDS}/{self.collection(name)}/get", asked)["ids"])

    def count(self, collection: str) -> int:
        return int(ask("GET", f"{self.url}{RECORDS}/{collection}/count"))

    def marks(self, collection: str, document: str) -> list[dict[str, Any]]:
        """The metadata of all records of a document, those that do not count as well."""
        body = {"where": {"document_id": document}, "include": ["metadatas"]}
        found = ask("POST", f"{self.url}{RECORDS}/{collection}/get", body)
        return list(found["metadatas"])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (OSError, urllib.error.URLError):
        time.sleep(0.05)
        return False


def registry(chroma: Chroma, stub: str, **options: Any) -> dict[str, Any]:
    """A registry with Chroma alone. A failure is seen at once, because nothing is tried again."""
    embedding = {"provider": "openai", "url": stub, "model": "all-MiniLM-L6-v2"}
    server = {
        "transport": "builtin",
        "builtin": "chroma",
        "url": chroma.url,
        "timeout": 300,
        "retry_attempts": 0,
        "circuit_breaker_threshold": 1000,
        "chroma": {"embedding": embedding, **options},
    }
    return {"mcp_servers": {"chroma": server}}
