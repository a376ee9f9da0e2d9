# With nothing but Python: from the wheel to a call by a FastMCP client, with two servers.

set +x
cat >notes.py <<'END'
from fastmcp import FastMCP

server = FastMCP("notes")
notes: list[str] = []


@server.tool
def add_note(text: str) -> int:
    """Keeps a note; how many there are."""
    notes.append(text)
    return len(notes)


server.run(show_banner=False)
END
cat >mcp_servers.yaml <<'END'
mcp_servers:
  time:
    command: mcp-server-time
    args: ["--local-timezone=UTC"]
  notes:
    command: python
    args: [notes.py]
END
cat >client.py <<'END'
import asyncio, sys
from fastmcp import Client


async def main():
    async with Client(sys.argv[1]) as client:
        tools = sorted(tool.name for tool in await client.list_tools())
        print("Connected:", ", ".join(tools))
        assert {"add_note", "get_current_time"} <= set(tools)
        print((await client.call_tool("add_note", {"text": "hello"})).data)
        print((await client.call_tool("get_current_time", {"timezone": "Europe/Berlin"})).content[0].text)


asyncio.run(main())
END
set -x
python3 -m venv venv
export PATH="$PWD/venv/bin:$PATH"
pip install --quiet --no-index "$PACKAGES"/switchyard_mcp-*.whl
pip install --quiet fastmcp==4.1.2 mcp==2.3.0 click==8.5.1 mcp-server-time==2026.10.19
switchyard check
switchyard serve --listen "127.0.0.1:$PORT" 2>gateway.log &
export SWITCHYARD_URL="http://127.0.0.1:$PORT"
until [ "$(switchyard servers -o json 2>errors.txt | grep --count '"ready"')" = 2 ]; do sleep 0.5; done
switchyard servers
python client.py "http://127.0.0.1:$PORT/mcp" | tee answer.txt
grep --quiet '^Connected' answer.txt
kill -TERM %1
wait %1
