"""A FastMCP server with state for each session: a counter, a text that was left in the session, the roots and the log
level of its client, and what the session has revealed.

`peer-python state.py stdio|http|sse PORT`. A counter that starts at 1 for each client shows that no two clients share
a session; one that starts again shows that a session was lost.
"""

import asyncio
import sys
from collections import Counter

from fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

mcp = FastMCP("state", version="1.0.0", instructions="Counts for each session.")

#: Calls that were cancelled, by key, for all sessions.
cancelled: Counter[str] = Counter()


@mcp.tool
async def count(ctx: Context) -> int:
    """Counts the calls of this session."""
    number = (await ctx.get_state("count") or 0) + 1
    await ctx.set_state("count", number)
    return number


@mcp.tool
async def keep(text: str, ctx: Context) -> str:
    """Keeps a text in the session."""
    await ctx.set_state("text", text)
    await ctx.info(f"kept {text}")
    return "kept"


@mcp.tool
async def say(text: str, level: str, ctx: Context) -> str:
    """Writes a log line of a level."""
    await ctx.log(text, level=level)
    return "said"


@mcp.tool
async def folders(ctx: Context) -> list[str]:
    """The roots of the client."""
    return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


@mcp.tool
def client(ctx: Context) -> str:
    """What the client of this session is called."""
    found = ctx.session.client_params
    return found.client_info.name if found else "nobody"


@mcp.tool
async def reveal(ctx: Context) -> str:
    """Shows what is secret, in this session only."""
    await ctx.enable_components(tags={"secret"})
    return "revealed"


@mcp.tool
async def hide(ctx: Context) -> str:
    """Hides it again, in this session only."""
    await ctx.disable_components(tags={"secret"})
    return "hidden"


@mcp.tool(tags={"secret"})
async def secret(ctx: Context) -> str:
    """Is there only after `reveal`."""
    return f"kept {await ctx.get_state('text') or 'nothing'}"


@mcp.tool
async def touch(uri: str, ctx: Context) -> str:
    """Tells that a resource was updated."""
    await ctx.session.send_resource_updated(uri)
    return "touched"


@mcp.tool
async def survey(ctx: Context) -> str:
    """Asks one thing after the other, the second because of the first."""
    first = await ctx.elicit("First?", response_type=str)
    second = await ctx.elicit(f"After {first.data}?", response_type=str)
    return f"{first.data} {second.data}"


@mcp.tool
async def slow(seconds: float, key: str, ctx: Context) -> str:
    """Tells of its progress five times."""
    try:
        for step in range(5):
            await ctx.report_progress(step, 5, f"step {step}")
            await asyncio.sleep(seconds / 5)
    except asyncio.CancelledError:
        cancelled[key] += 1
        raise
    return "slept"


@mcp.tool
def was_cancelled(key: str) -> bool:
    """Whether a call of `slow` was cancelled."""
    return cancelled[key] > 0


@mcp.tool
async def ask(ctx: Context) -> str:
    """Asks for a name, and a model for some words."""
    name = await ctx.elicit("What is your name?", response_type=str)
    question = SamplingMessage(role="user", content=TextContent(type="text", text="Say something."))
    words = await ctx.session.create_message(messages=[question], max_tokens=50)
    return f"{name} {words.content}"


@mcp.tool
def fail() -> str:
    """Always fails."""
    raise ValueError("this tool always fails")


@mcp.resource("state://text")
async def text(ctx: Context) -> str:
    """What was kept in this session."""
    return await ctx.get_state("text") or "nothing"


@mcp.resource("state://item/{name}")
def item(name: str) -> str:
    """An item."""
    return f"item {name}"


@mcp.resource("state://secret", tags={"secret"})
def secret_text() -> str:
    """Is there only after `reveal`."""
    return "a secret"


@mcp.prompt(tags={"secret"})
def riddle() -> str:
    """Is there only after `reveal`."""
    return "What is it?"


@mcp.prompt
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}."


@mcp.completion
def completed(_ref: object, argument: object, _context: object) -> list[str]:
    """Names that begin with what was typed."""
    return [name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)]


@mcp.prompt
async def summary(ctx: Context) -> str:
    """What this session has."""
    return f"counted to {await ctx.get_state('count') or 0}"


mcp.disable(tags={"secret"})


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        mcp.run(show_banner=False)
    else:
        mcp.run(transport=sys.argv[1], port=int(sys.argv[2]), show_banner=False)
