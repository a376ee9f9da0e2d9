"""A FastMCP server with state for each session: a counter, and a file that was left in the session.

`peer-python state.py stdio|http|sse PORT`. A counter that starts at 1 for each client shows that no two clients share
a session; one that starts again shows that a session was lost.
"""

import asyncio
import sys
from collections import Counter

from fastmcp import Context, FastMCP

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
    words = await ctx.sample("Say something.")
    return f"{name} {words.text}"


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


@mcp.prompt
async def summary(ctx: Context) -> str:
    """What this session has."""
    return f"counted to {await ctx.get_state('count') or 0}"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        mcp.run(show_banner=False)
    else:
        mcp.run(transport=sys.argv[1], port=int(sys.argv[2]), show_banner=False)
