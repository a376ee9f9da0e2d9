"""The client of fastmcp under the names that driver.py uses. `mode`: "auto", its default, or "legacy"."""

from typing import Any

from driver import Json, Peer
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.types import Implementation
from python_sdk import Python, run


def transport(target: Json) -> Any:
    if target["transport"] == "sse":
        return SSETransport(target["url"])
    if target["transport"] == "stdio":
        command, *arguments = target["command"]
        return StdioTransport(command, arguments, env=target["env"], cwd=target["cwd"], keep_alive=False)
    return StreamableHttpTransport(target["url"])


class FastMCP(Python):
    """One connection."""

    suffix, progress = "_mcp", "progress_handler"

    def __init__(self, target: Json, mode: Any, peer: Peer) -> None:
        async def elicit(_message: str, _kind: Any, params: Any, context: Any) -> Any:
            return await peer.elicit(context, params)

        async def sample(_messages: Any, params: Any, context: Any) -> Any:
            return await peer.sample(context, params)

        async def roots(context: Any) -> Any:
            return (await peer.list_roots(context)).roots

        self.inner = Client(
            transport(target),
            mode=mode,
            client_info=Implementation(name="compare-fastmcp", version="1.0.0"),
            elicitation_handler=elicit,
            sampling_handler=sample,
            roots=roots,
            message_handler=peer.on_message,
        )

    def _session(self) -> Any:
        return self.inner.session

    async def ping(self, _step: Json) -> Any:
        return {"answered": await self.inner.ping()}


if __name__ == "__main__":
    run(FastMCP)
