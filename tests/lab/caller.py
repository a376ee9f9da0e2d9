"""A client of the REST API and of MCP (2026-07-28) that has no OAuth of its own, only a key for the gateway.

Invariant: one connection for each `Caller`, so one thread at a time uses it.
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

REVISION = "2026-07-28"


@dataclass(frozen=True)
class Answer:
    """The status and the JSON of an answer; of an event stream, the last event."""

    status: int
    body: Any


class Caller:
    """One client with one connection. `seconds` are for one request."""

    def __init__(self, base: str, key: str = "", seconds: float = 30) -> None:
        self._credential = {"authorization": f"Bearer {key}"} if key else {}
        self._connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=seconds)

    def ask(self, method: str, path: str, message: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request. A connection that was closed while nothing was sent is opened again."""
        body = None if message is None else json.dumps(message)
        fields = {"accept": "application/json, text/event-stream", **self._credential, **(headers or {})}
        if body is not None:
            fields["content-type"] = "application/json"
        try:
            status, text = self._send(method, path, body, fields)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._connection.close()
            status, text = self._send(method, path, body, fields)
        events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        text = events[-1] if events else text
        return Answer(status, json.loads(text) if text.strip() else None)

    def mcp(self, server: str, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """One MCP request to the endpoint of a server; the JSON-RPC response."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        fields = {"MCP-Protocol-Version": REVISION, "Mcp-Method": method, **(headers or {})}
        return self.ask("POST", f"/mcp/{server}", message, fields).body

    def tools(self, server: str) -> list[str]:
        """The names of the tools of a server."""
        listed = self.mcp(server, "tools/list", {}).get("result", {})
        return [tool["name"] for tool in listed.get("tools", [])]

    def call(self, server: str, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The JSON-RPC response to a call of a tool."""
        return self.mcp(server, "tools/call", {"name": tool, "arguments": arguments or {}}, {"Mcp-Name": tool})

    def servers(self) -> dict[str, Any]:
        """The servers as the REST API shows them, by name."""
        listed = self.ask("GET", "/api/v1/mcp/servers").body["servers"]
        return {server["name"]: server for server in listed}

    def _send(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> tuple[int, str]:
        self._connection.request(method, path, body, dict(headers))
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()


def text_of(response: Mapping[str, Any]) -> str | None:
    """The text of a successful call; None for an error, a failed tool and a question."""
    result = response.get("result") or {}
    if result.get("isError") or result.get("resultType", "complete") != "complete" or "content" not in result:
        return None
    return "".join(part.get("text", "") for part in result["content"])
