"""The client of the Python SDK under the names that driver.py uses. `mode`: "auto", its default, or "legacy"."""

import asyncio
import os
from typing import Any

from driver import Json, Peer, main
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.types import Implementation, PromptReference, ResourceTemplateReference


def transport(target: Json) -> Any:
    if target["transport"] == "sse":
        return sse_client(target["url"])
    if target["transport"] == "stdio":
        command, *arguments = target["command"]
        return StdioServerParameters(command=command, args=arguments, env=target["env"], cwd=target["cwd"])
    return target["url"]


class Python:
    """One connection."""

    def __init__(self, target: Json, mode: str, peer: Peer) -> None:
        self.inner = Client(
            transport(target),
            mode=mode,
            client_info=Implementation(name="compare-python", version="1.0.0"),
            elicitation_callback=peer.elicit,
            sampling_callback=peer.sample,
            list_roots_callback=peer.list_roots,
            message_handler=peer.on_message,
        )

    def facts(self) -> Json:
        client = self.inner
        info = client.server_info
        return {
            "protocolVersion": client.protocol_version,
            "capabilities": client.server_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True),
            "instructions": client.instructions,
            "serverInfo": info and info.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    async def list(self, step: Json) -> Any:
        names = {"Tools": "tools", "Prompts": "prompts", "Resources": "resources"}
        return await getattr(self.inner, f"list_{names.get(step['what'], 'resource_templates')}")()

    async def call(self, name: str, arguments: Json, on_progress: Any) -> Any:
        return await self.inner.call_tool(name, arguments, progress_callback=on_progress)

    async def read(self, step: Json) -> Any:
        return await self.inner.read_resource(step["uri"])

    async def prompt(self, step: Json) -> Any:
        return await self.inner.get_prompt(step["name"], step.get("arguments"))

    async def complete(self, step: Json) -> Any:
        ref = PromptReference if step["ref"]["type"] == "ref/prompt" else ResourceTemplateReference
        context = (step.get("context") or {}).get("arguments")
        return await self.inner.complete(ref(**step["ref"]), step["argument"], context)

    async def subscribe(self, uri: str) -> Any:
        return await self.inner.subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> Any:
        return await self.inner.unsubscribe_resource(uri)

    async def level(self, step: Json) -> Any:
        return await self.inner.set_logging_level(step["level"])

    async def ping(self, _step: Json) -> Any:
        return await self.inner.send_ping()

    async def roots_changed(self) -> None:
        await self.inner.send_roots_list_changed()


if __name__ == "__main__":
    asyncio.run(main(Python))
    # Transports of clients that the steps left open are ended by the end of the process.
    os._exit(0)
