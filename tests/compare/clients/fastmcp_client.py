"""The client of fastmcp under the names that driver.py uses. `mode`: "auto", its default, or "legacy"."""

import asyncio
import os
from typing import Any

from driver import Json, Peer, main
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.types import Implementation, PromptReference, ResourceTemplateReference


def transport(target: Json) -> Any:
    if target["transport"] == "sse":
        return SSETransport(target["url"])
    if target["transport"] == "stdio":
        command, *arguments = target["command"]
        return StdioTransport(command, arguments, env=target["env"], cwd=target["cwd"], keep_alive=False)
    return StreamableHttpTransport(target["url"])


class FastMCP:
    """One connection."""

    def __init__(self, target: Json, mode: Any, peer: Peer) -> None:
        async def elicit(_message: str, _kind: Any, params: Any, context: Any) -> Any:
            return await peer.elicit(context, params)

        async def sample(_messages: Any, params: Any, context: Any) -> Any:
            return await peer.sample(context, params)

        async def roots(context: Any) -> Any:
            return (await peer.list_roots(context)).roots

        self.inner: Client[Any] = Client(
            transport(target),
            mode=mode,
            client_info=Implementation(name="compare-fastmcp", version="1.0.0"),
            elicitation_handler=elicit,
            sampling_handler=sample,
            roots=roots,
            message_handler=peer.on_message,
        )

    def facts(self) -> Json:
        client = self.inner
        info, able = client.server_info, client.server_capabilities
        return {
            "protocolVersion": client.protocol_version,
            "capabilities": able and able.model_dump(mode="json", by_alias=True, exclude_none=True),
            "instructions": client.instructions,
            "serverInfo": info and info.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    async def list(self, step: Json) -> Any:
        names = {"Tools": "tools", "Prompts": "prompts", "Resources": "resources"}
        return await getattr(self.inner, f"list_{names.get(step['what'], 'resource_templates')}_mcp")()

    async def call(self, name: str, arguments: Json, on_progress: Any) -> Any:
        return await self.inner.call_tool_mcp(name, arguments, progress_handler=on_progress)

    async def read(self, step: Json) -> Any:
        return await self.inner.read_resource_mcp(step["uri"])

    async def prompt(self, step: Json) -> Any:
        return await self.inner.get_prompt_mcp(step["name"], step.get("arguments"))

    async def complete(self, step: Json) -> Any:
        ref = PromptReference if step["ref"]["type"] == "ref/prompt" else ResourceTemplateReference
        context = (step.get("context") or {}).get("arguments")
        return await self.inner.complete_mcp(ref(**step["ref"]), step["argument"], context)

    async def subscribe(self, uri: str) -> Any:
        return await self.inner.session.subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> Any:
        return await self.inner.session.unsubscribe_resource(uri)

    async def level(self, step: Json) -> Any:
        return await self.inner.set_logging_level(step["level"])

    async def ping(self, _step: Json) -> Any:
        return {"answered": await self.inner.ping()}

    async def roots_changed(self) -> None:
        await self.inner.send_roots_list_changed()


if __name__ == "__main__":
    asyncio.run(main(FastMCP))
    # Transports of clients that the steps left open are ended by the end of the process.
    os._exit(0)
