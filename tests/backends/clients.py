"""The two ways to the gateway's tools: REST, and the MCP client of the Python SDK in the newest revision.

Both give an `Outcome`, so that one scenario runs through either.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Outcome:
    """What a call came to. `code` says what kind of failure it was; `data` is the structured result."""

    ok: bool
    took: float
    data: dict[str, Any] = field(default_factory=dict)
    code: str = ""
    text: str = ""
    said: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        what = json.dumps(self.data) if self.ok else f"{self.code}: {self.text}"
        return f"{'ok' if self.ok else 'failed'} after {self.took:.2f} s: {what[:700]}"


class Rest:
    """`POST /api/v1/mcp/call` over one connection that is kept; not for several threads."""

    name = "REST"

    def __init__(self, port: int, patience: float = 90, server: str = "r2r") -> None:
        self._port, self._patience, self._server = port, patience, server
        self._wire: http.client.HTTPConnection | None = None
        self._used = 0.0

    def __enter__(self) -> Rest:
        return self

    def __exit__(self, *how: Any) -> None:
        if self._wire:
            self._wire.close()

    def get(self, path: str) -> Any:
        """The JSON at a path below `/api/v1/mcp`."""
        return self._send("GET", f"/api/v1/mcp/{path}", None)[1]

    def post(self, path: str) -> Any:
        """An action below `/api/v1/mcp`."""
        return self._send("POST", f"/api/v1/mcp/{path}", None)[1]

    def text(self, path: str) -> str:
        """What stands at a path of the gateway, as text."""
        return self._exchange("GET", path, None)[1].decode()

    def server(self) -> dict[str, Any]:
        """What the gateway says of the server."""
        return next(one for one in self.get("servers")["servers"] if one["name"] == self._server)

    def tools(self) -> list[dict[str, Any]]:
        """The definitions of all tools."""
        return [tool["definition"] for tool in self.get("tools")["tools"]]

    def call(self, tool: str, arguments: dict[str, Any], timeout: float | None = None) -> Outcome:
        body: dict[str, Any] = {"server": self._server, "tool": tool, "arguments": arguments}
        if timeout:
            body["timeout"] = timeout
        began = time.monotonic()
        try:
            status, answer = self._send("POST", "/api/v1/mcp/call", body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Outcome(False, time.monotonic() - began, code="no_answer", text=repr(error))
        took = time.monotonic() - began
        if status == 200 and answer.get("success"):
            return Outcome(True, took, data=answer["data"])
        code = answer.get("code") or str(status)
        data = answer.get("data") if isinstance(answer.get("data"), dict) else {}
        return Outcome(False, took, data, code, json.dumps(answer))

    def _send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        status, answer = self._exchange(method, path, body)
        return status, json.loads(answer)

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        # The gateway closes a connection that nobody used for a while.
        if self._wire and time.monotonic() - self._used > 20:
            self._wire.close()
            self._wire = None
        if self._wire is None:
            self._wire = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._patience)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            self._wire.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._wire.getresponse()
            self._used = time.monotonic()
            return answer.status, answer.read()
        except BaseException:
            self._wire.close()
            self._wire = None
            raise


class Sdk:
    """The MCP client of the Python SDK, in a program of its own (`sdk_client.py`): a line asks, a line answers."""

    name = "MCP"

    def __init__(self, python: str, url: str, log: Path) -> None:
        with log.open("wb") as errors:
            self._program = subprocess.Popen(
                [python, str(HERE / "sdk_client.py"), url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.log = log

    def __enter__(self) -> Sdk:
        return self

    def __exit__(self, *how: Any) -> None:
        assert self._program.stdin
        self._program.stdin.close()
        try:
            self._program.wait(10)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()

    def revision(self) -> str:
        """The revision of MCP that is spoken."""
        return str(self._ask({"op": "revision"})["value"])

    def tools(self) -> list[dict[str, Any]]:
        return list(self._ask({"op": "tools"})["value"])

    def resources(self) -> list[str]:
        """Their URIs."""
        return list(self._ask({"op": "resources"})["value"])

    def read(self, uri: str) -> Any:
        """A resource of JSON."""
        return self._ask({"op": "read", "uri": uri})["value"]

    def call(
        self, tool: str, arguments: dict[str, Any], timeout: float | None = None, *, listens: bool = False
    ) -> Outcome:
        """A call; who `listens` is told of its progress, which then stands in `said`."""
        began = time.monotonic()
        answer = self._ask({"op": "call", "tool": tool, "arguments": arguments, "listens": listens})
        took, said = time.monotonic() - began, answer.get("said", [])
        if "error" in answer:
            return Outcome(False, took, code=str(answer.get("code", "error")), text=answer["error"], said=said)
        data = answer["value"] or {}
        if answer["is_error"]:
            return Outcome(False, took, data, "tool_error", answer["text"], said)
        return Outcome(True, took, data, text=answer["text"], said=said)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._program.stdin and self._program.stdout
        self._program.stdin.write(json.dumps(question) + "\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        if not line:
            raise RuntimeError(f"the SDK's client ended, see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer and question["op"] != "call":
            raise RuntimeError(f"{question}: {answer['error']}")
        return answer
