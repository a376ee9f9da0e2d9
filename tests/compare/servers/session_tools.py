"""A FastMCP server whose tools, resources and prompts differ by session: some are hidden until a client unlocks them.

`peer-python session_tools.py stdio|http|sse PORT`. Only the session that unlocked them is told that its lists changed,
lists them, and can use them.
"""

import sys

from fastmcp import Context, FastMCP

mcp = FastMCP("session-tools", version="1.0.0")


@mcp.tool
async def unlock(ctx: Context) -> str:
    """Shows what is hidden, in this session only."""
    await ctx.enable_components(tags={"hidden"})
    return "unlocked"


@mcp.tool
async def lock(ctx: Context) -> str:
    """Hides it again, in this session only."""
    await ctx.disable_components(tags={"hidden"})
    return "locked"


@mcp.tool(tags={"hidden"})
def vault() -> str:
    """Is there only after `unlock`."""
    return "gold"


@mcp.resource("vault://content", tags={"hidden"})
def content() -> str:
    """Is there only after `unlock`."""
    return "more gold"


@mcp.prompt(tags={"hidden"})
def robbery() -> str:
    """Is there only after `unlock`."""
    return "Describe the robbery of a bank."


mcp.disable(tags={"hidden"})


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        mcp.run(show_banner=False)
    else:
        mcp.run(transport=sys.argv[1], port=int(sys.argv[2]), show_banner=False)
