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
    """One connection. FastMCP has most methods under the same names with a suffix."""

    suffix, progress = "", "progress_callback"

    def __init__(self, target: Json, mode: str, peer: Peer) -> None:
        self.inner: Any = Client(
            transport(target),
            mode=mode,
            client_info=Implementation(name="compare-python", version="1.0.0"),
            elicitation_callback=peer.elicit,
            sampling_callback=peer.sample,
            list_roots_callback=peer.list_roots,
            message_handler=peer.on_message,
        )

    def _do(self, method: str, *arguments: Any, **more: Any) -> Any:
        return getattr(self.inner, method + self.suffix)(*arguments, **more)

    def _session(self) -> Any:
        return self.inner

    def facts(self) -> Json:
        info, able = self.inner.server_info, self.inner.server_capabilities
        return {
            "protocolVersion": self.inner.protocol_version,
            "capabilities": able and able.model_dump(mode="json", by_alias=True, exclude_none=True),
            "instructions": self.inner.instructions,
            "serverInfo": info and info.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    async def list(self, step: Json) -> Any:
        names = {"Tools": "tools", "Prompts": "prompts", "Resources": "resources"}
        return await self._do(f"list_{names.get(step['what'], 'resource_templates')}")

    async def call(self, name: str, arguments: Json, on_progress: Any) -> Any:
        return await self._do("call_tool", name, arguments, **{self.progress: on_progress})

    async def read(self, step: Json) -> Any:
        return await self._do("read_resource", step["uri"])

    async def prompt(self, step: Json) -> Any:
        return await self._do("get_prompt", step["name"], step.get("arguments"))

    async def complete(self, step: Json) -> Any:
        ref = PromptReference if step["ref"]["type"] == "ref/prompt" else ResourceTemplateReference
        context = (step.get("context") or {}).get("arguments")
        return await self._do("complete", ref(**step["ref"]), step["argument"], context)

    async def subscribe(self, uri: str) -> Any:
        return await self._session().subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> Any:
        return await self._session().unsubscribe_resource(uri)

    async def level(self, step: Json) -> Any:
        return await self.inner.set_logging_level(step["level"])

    async def ping(self, _step: Json) -> Any:
        return await self.inner.send_ping()

    async def roots_changed(self) -> None:
        await self.inner.send_roots_list_changed()


def run(kind: type[Python]) -> None:
    asyncio.run(main(kind))
    # Transports of clients that the steps left open are ended by the end of the process.
    os._exit(0)


if __name__ == "__main__":
    run(Python)
