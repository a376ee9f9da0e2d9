"""The MCP client of the Python SDK, told by lines on standard input what to do; run with `peer-python`.

Argument: the URL of the endpoint. Each line is `{"op": …}` and is answered by one line. The SDK checks every
structured result against the tool's `outputSchema` and fails the call when it does not fit.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp.client import Client
from mcp.shared.exceptions import MCPError


async def call(client: Client, asked: dict[str, Any]) -> dict[str, Any]:
    said: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        said.append(f"{done}/{total} {message or ''}".strip())

    try:
        heard = {"progress_callback": progress} if asked["listens"] else {}
        result = await client.call_tool(asked["tool"], asked["arguments"], **heard)
    except MCPError as error:
        return {"error": f"{error.error.message} {error.error.data}", "code": error.error.code, "said": said}
    text = "\n".join(block.text for block in result.content if block.type == "text")
    return {"value": result.structured_content, "is_error": bool(result.is_error), "text": text, "said": said}


async def answer(client: Client, asked: dict[str, Any]) -> dict[str, Any]:
    match asked["op"]:
        case "call":
            return await call(client, asked)
        case "revision":
            return {"value": client.protocol_version}
        case "tools":
            tools = (await client.list_tools()).tools
            return {"value": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]}
        case "resources":
            return {"value": [str(one.uri) for one in (await client.list_resources()).resources]}
        case "read":
            return {"value": json.loads((await client.read_resource(asked["uri"])).contents[0].text)}
        case other:
            raise ValueError(f"unknown op {other}")


async def main() -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    reading = loop.run_in_executor(None, read)
    async with Client(sys.argv[1]) as client:
        while line := await lines.get():
            try:
                said = await answer(client, json.loads(line))
            except Exception as error:  # whatever the SDK found wrong with the answer
                said = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(said), flush=True)
    await reading


if __name__ == "__main__":
    asyncio.run(main())
