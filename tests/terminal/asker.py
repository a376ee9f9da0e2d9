#!/usr/bin/env python3
"""An MCP server on standard input and output, with the standard library only.

`book` asks its client where to travel before it answers, `echo` answers at once. Its description tries to clear the
screen.
"""

from __future__ import annotations

import json
import sys
from typing import Any

FORM = {
    "type": "object",
    "required": ["city"],
    "properties": {
        "city": {"type": "string", "title": "City", "description": "Where to travel\x1b[2J"},
        "class": {"type": "string", "enum": ["economy", "business"], "default": "economy"},
        "bags": {"type": "integer", "default": 1},
    },
}
TOOLS = [
    {"name": "book", "description": "Books a journey.", "inputSchema": {"type": "object"}},
    {"name": "echo", "description": "Echoes.\x1b[2J\x1b[31m", "inputSchema": {"type": "object"}},
]


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def main() -> None:
    waiting: dict[str, Any] = {}
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "asker", "version": "1"}
            say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            say(id=number, result={"tools": TOOLS})
        elif method == "tools/call" and message["params"]["name"] == "book":
            waiting[f"ask-{number}"] = number
            say(id=f"ask-{number}", method="elicitation/create", params={"message": "Where to?", "requestedSchema": FORM})
        elif method == "tools/call":
            say(id=number, result=text("hello"))
        elif method is None and number in waiting:
            answer = message.get("result", {"action": "nobody can be asked"})
            content = answer.get("content")
            booked = content and f"booked {content['bags']} bags to {content['city']}, {content['class']}"
            result = text(booked or answer["action"])
            say(id=waiting.pop(number), result={**result, "isError": "result" not in message})
        elif number is not None:
            say(id=number, error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
