#!/usr/bin/env python3
"""An MCP server over stdio (2025-11-25) with the tools, the prompt and the resource of the examples in the API's document.

`create_issue` answers, `refuse` fails, and `ask` reports progress, logs, and asks a person before it answers. It needs
nothing but Python, and never waits: an answer to a question is a message like any other.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]
TEXT = {"type": "string"}
TOOLS: list[Json] = [
    {
        "name": "create_issue", "title": "Create an issue", "description": "Makes an issue of a title.",
        "inputSchema": {"type": "object", "properties": {"title": TEXT}, "required": ["title"]},
        "outputSchema": {"type": "object", "properties": {"issue_id": TEXT}, "required": ["issue_id"]},
    },
    {"name": "refuse", "description": "Reports an error.", "inputSchema": {"type": "object"}},
    {"name": "ask", "description": "Asks a person for a name.", "inputSchema": {"type": "object"}},
]  # fmt: skip
FORM = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
#: The calls of `ask` that wait, by the id of their question.
waiting: dict[str, Any] = {}


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}


def ask(id: Any, params: Json) -> None:
    """Begins a call of `ask`, which `answered` ends."""
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        progress = {"progressToken": token, "progress": 1, "total": 2, "message": "asking"}
        send({"method": "notifications/progress", "params": progress})
    send({"method": "notifications/message", "params": {"level": "info", "logger": "issues", "data": {"asks": True}}})
    question = f"question-{len(waiting) + 1}-{id}"
    waiting[question] = id
    params = {"mode": "form", "message": "What is your name?", "requestedSchema": FORM}
    send({"id": question, "method": "elicitation/create", "params": params})


def answered(message: Json) -> None:
    id = waiting.pop(message["id"], None)
    result = message.get("result", {})
    if id is not None:
        name = result.get("content", {}).get("name") if result.get("action") == "accept" else None
        send({"id": id, "result": text(f"Hello {name}") if name else text("nobody answered", isError=True)})


def called(id: Any, params: Json) -> Json | None:
    match params.get("name"):
        case "create_issue":
            issue = {"issue_id": f"issue {params.get('arguments', {}).get('title')}"}
            return text(json.dumps(issue), structuredContent=issue)
        case "refuse":
            return text("the title is taken", isError=True)
        case "ask":
            ask(id, params)
            return None
    return text("there is no such tool", isError=True)


def result(method: str, params: Json) -> Json | None:
    """The result of every request but a call; None for an unknown method or resource."""
    note = {"uri": "file:///notes.txt", "mimeType": "text/plain"}
    match method:
        case "initialize":
            offers: Json = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}}
            info = {"name": "issues", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "prompts/list":
            return {"prompts": [{"name": "summarize", "arguments": [{"name": "topic"}]}]}
        case "prompts/get":
            topic = params.get("arguments", {}).get("topic", "everything")
            content = {"type": "text", "text": f"Summarize {topic}"}
            return {"messages": [{"role": "user", "content": content}]}
        case "resources/list":
            return {"resources": [{**note, "name": "notes"}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "issue:///{id}", "name": "issue"}]}
        case "resources/read" if params.get("uri") == note["uri"]:
            return {"contents": [{**note, "text": "the harvest was good"}]}
        case "ping" | "logging/setLevel":
            return {}
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method is None:
            answered(message)
        elif id is not None:
            params = message.get("params", {})
            if method == "tools/call":
                said = called(id, params)
                if said is not None:
                    send({"id": id, "result": said})
            elif (said := result(method, params)) is not None:
                send({"id": id, "result": said})
            else:
                code = -32002 if method == "resources/read" else -32601
                send({"id": id, "error": {"code": code, "message": "there is no such thing"}})


if __name__ == "__main__":
    main()
