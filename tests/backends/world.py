"""What a run is made of: a real R2R, a real Chroma, the embedding model, and gateways in front of them.

Invariants: everything listens on loopback, on ports that were free; all data lies below the folder of the run; only what was
started here is ended, by its own pid. A service starts when a check needs it, and ends with the world.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from caller import Answer, Caller  # noqa: E402
from programs import Gateway, Program, free_port, output  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
#: Where the packages of R2R and Chroma are kept.
HOME = Path(os.environ.get("SWITCHYARD_TESTS") or CACHE / "switchyard-tests") / "backends"
#: Seconds that a script of the lab may take, the installation of packages included.
PATIENCE = 900
RECORDS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def lab_script(name: str, command: str, log: Path, **variables: str) -> dict[str, str]:
    """What a script of `lab` prints as `NAME=VALUE`."""
    with log.open("ab") as errors:
        told = output([HERE / "lab" / name, command], PATIENCE, env={**os.environ, **variables}, stderr=errors)
    return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2).is_success
    except httpx2.TransportError:
        return False


class World:
    """The services, and the gateways that are put in front of them."""

    def __init__(self, binary: Path, out: Path) -> None:
        self.binary, self.out = binary, out
        self._stack = ExitStack()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *how: Any) -> None:
        self._stack.close()

    @cached_property
    def _installed(self) -> dict[str, str]:
        return lab_script("chroma-up.sh", "install", self.out / "install.log", CHROMA_LAB_HOME=str(HOME))

    @cached_property
    def stub(self) -> Stub:
        return self._stack.enter_context(Stub(self._installed["STUB_PYTHON"], self.out))

    @cached_property
    def chroma(self) -> Chroma:
        return self._stack.enter_context(Chroma(self._installed["CHROMA"], self.out))

    @cached_property
    def r2r(self) -> R2r:
        return self._stack.enter_context(R2r(self.out))

    @contextmanager
    def gateway(self, name: str, **entry: Any) -> Iterator[Gateway]:
        """A gateway with one built-in server."""
        with Gateway(self.binary, {entry["builtin"]: {"transport": "builtin", **entry}}, self.out / f"{name}.log") as gateway:
            yield gateway

    def embedding(self) -> dict[str, str]:
        return {"provider": "openai", "url": self.stub.url, "model": "all-MiniLM-L6-v2"}


class R2r:
    """R2R with its database and its models, by `lab/r2r-up.sh`."""

    def __init__(self, out: Path) -> None:
        self._run = out / "r2r"
        self.log = self._run / "r2r.log"
        ports = {f"R2R_LAB_{name}PORT": str(free_port()) for name in ("", "PG_", "STUB_")}
        self._variables = {**ports, "R2R_LAB_HOME": str(HOME), "R2R_LAB_RUN": str(self._run)}

    def __enter__(self) -> R2r:
        self._run.parent.chmod(0o755)  # PostgreSQL may run as another user
        try:
            self.up()
        except BaseException:
            self._script("down")
            raise
        return self

    def __exit__(self, *how: Any) -> None:
        self._script("down")

    def up(self, **settings: str) -> None:
        """Ends R2R if it runs, and starts it with these settings, such as `ACCESS_MINUTES="0.1"`."""
        self._script("stop-r2r")
        found = self._script("up", **{f"R2R_LAB_{name}": value for name, value in settings.items()})
        self.url, self.account = found["R2R_API_URL"], (found["R2R_SERVICE_EMAIL"], found["R2R_SERVICE_PASSWORD"])

    def entry(self, project: str, folder: Path, **options: Any) -> dict[str, Any]:
        """The entry of the registry for a project whose documents are in the folder."""
        email, password = self.account
        options |= {"email": email, "password": password, "project": project, "ingest_roots": [str(folder)]}
        options["collection_mapping_file"] = str(self._run / f"{project}.json")
        return {"builtin": "r2r", "url": self.url, "r2r": options}

    def _script(self, command: str, **variables: str) -> dict[str, str]:
        return lab_script("r2r-up.sh", command, self._run.parent / "r2r-up.log", **self._variables, **variables)


class Stub:
    """The embedding model behind the API of OpenAI."""

    def __init__(self, python: str, out: Path) -> None:
        port = free_port()
        self.url, self._log = f"http://127.0.0.1:{port}/v1", out / "stub.jsonl"
        command = [python, str(HERE / "lab" / "embed-stub.py"), "--port", str(port), "--log", str(self._log)]
        self._program = Program("embed-stub", command, out / "stub.log")

    def __enter__(self) -> Stub:
        self._program.wait_until("answers", lambda: answers(f"{self.url.removesuffix('/v1')}/healthz"))
        return self

    def __exit__(self, *how: Any) -> None:
        self._program.__exit__(None, None, None)

    def embedded(self) -> int:
        """Texts that vectors were made of so far."""
        return sum(json.loads(line)["inputs"] for line in self._log.read_text().splitlines())


class Chroma:
    """A Chroma that keeps its data in a folder, and can be killed and started again."""

    def __init__(self, command: str, out: Path) -> None:
        self._command, self._out, self.port = command, out, free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Chroma:
        self.start()
        return self

    def __exit__(self, *how: Any) -> None:
        self._program.__exit__(None, None, None)

    def start(self) -> None:
        command = [self._command, "run", "--path", str(self._out / "chroma"), "--host", "127.0.0.1", "--port", str(self.port)]
        self._program = Program("chroma", command, self._out / "chroma.log", {**os.environ, "ANONYMIZED_TELEMETRY": "False"})
        self._program.wait_until("answers", lambda: answers(f"{self.url}/api/v2/heartbeat"))

    def kill(self) -> None:
        """It is gone without a word."""
        self._program.signal(signal.SIGKILL)
        self._program.__exit__(None, None, None)

    def records(self, collection: str, **asked: Any) -> dict[str, Any]:
        """The ids and the metadata of records, past the gateway and by the name that Chroma has."""
        found = httpx2.get(f"{self.url}{RECORDS}/{collection}", timeout=60).raise_for_status().json()
        body = {"include": ["metadatas"], "limit": 100_000, **asked}
        answer = httpx2.post(f"{self.url}{RECORDS}/{found['id']}/get", json=body, timeout=60)
        return dict(answer.raise_for_status().json())

    def count(self, collection: str) -> int:
        return len(self.records(collection, include=[])["ids"])


__all__ = ["Answer", "Caller", "HERE", "World"]
