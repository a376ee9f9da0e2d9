#!/usr/bin/env python3
"""An MCP server over stdio (2025-11-25) with tools, a prompt and a resource, as the examples in the API's document have them.

`create_issue` answers, `refuse` fails, and its description tries to clear the screen. `book` reports progress, logs, and asks
a person before it answers. The server needs nothing but Python, and never waits: an answer is a message like any other.
"""

import json
import sys
from typing import Any

Json = dict[str, Any]
TEXT = {"type": "string"}
FORM = {
    "type": "object",
    "required": ["city"],
    "properties": {
        "city": {"type": "string", "title": "City", "description": "Where to travel\x1b[2J"},
        "class": {"type": "string", "enum": ["economy", "business"], "default": "economy"},
        "bags": {"type": "integer", "default": 1},
    },
}
TOOLS: list[Json] = [
    {
        "name": "create_issue", "title": "Create an issue", "description": "Makes an issue of a title.",
        "inputSchema": {"type": "object", "properties": {"title": TEXT}, "required": ["title"]},
        "outputSchema": {"type": "object", "properties": {"issue_id": TEXT}, "required": ["issue_id"]},
    },
    {"name": "refuse", "description": "Reports an error.\x1b[2J\x1b[31m", "inputSchema": {"type": "object"}},
    {"name": "book", "description": "Books a journey.", "inputSchema": {"type": "object"}},
]  # fmt: skip
NOTE = {"uri": "file:///notes.txt", "mimeType": "text/plain"}
RESULTS: dict[str, Json] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "logging": {}},
        "serverInfo": {"name": "issues", "version": "1"},
    },
    "tools/list": {"tools": TOOLS},
    "prompts/list": {"prompts": [{"name": "summarize", "arguments": [{"name": "topic"}]}]},
    "resources/list": {"resources": [{**NOTE, "name": "notes"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "issue:///{id}", "name": "issue"}]},
    "ping": {},
    "logging/setLevel": {},
}
#: The calls of `book` that wait, by the id of their question.
waiting: Json = {}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(words: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}


def book(id: Any, params: Json) -> None:
    """Begins a call, which `answered` ends."""
    if (token := params.get("_meta", {}).get("progressToken")) is not None:
        progress = {"progressToken": token, "progress": 1, "total": 2, "message": "asking"}
        send(method="notifications/progress", params=progress)
    send(method="notifications/message", params={"level": "info", "logger": "issues", "data": {"asks": True}})
    waiting[question := f"question-{len(waiting) + 1}-{id}"] = id
    send(id=question, method="elicitation/create", params={"message": "Where to?", "requestedSchema": FORM})


def answered(message: Json) -> None:
    if (id := waiting.pop(message["id"], None)) is not None:
        answer = message.get("result", {"action": "nobody answered"})
        if isinstance(content := answer.get("content"), dict):
            journey = {"city": "nowhere", "class": "economy", "bags": 1} | content
            send(id=id, result=text("booked {bags} bags to {city}, {class}".format(**journey)))
        else:
            send(id=id, result=text(answer["action"], isError="result" not in message))


def result(method: str, params: Json) -> Json | None:
    """The result of a request; None for an unknown one."""
    match method, params.get("name"), params.get("uri"):
        case "tools/call", "create_issue", _:
            issue = {"issue_id": f"issue {params.get('arguments', {}).get('title')}"}
            return text(json.dumps(issue), structuredContent=issue)
        case "tools/call", "refuse", _:
            return text("the title is taken", isError=True)
        case "tools/call", _, _:
            return text("there is no such tool", isError=True)
        case "prompts/get", _, _:
            words = f"Summarize {params.get('arguments', {}).get('topic', 'everything')}"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
        case "resources/read", _, "file:///notes.txt":
            return {"contents": [{**NOTE, "text": "the harvest was good"}]}
    return RESULTS.get(method)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if method is None:
            answered(message)
        elif method == "tools/call" and params.get("name") == "book":
            book(id, params)
        elif id is not None and (found := result(method, params)) is not None:
            send(id=id, result=found)
        elif id is not None:
            code = -32002 if method == "resources/read" else -32601
            send(id=id, error={"code": code, "message": "there is no such thing"})


if __name__ == "__main__":
    main()
