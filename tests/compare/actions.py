"""What each client does with each server: pure data, one list of steps for each server.

A step has `do`, a verb of the drivers in clients/, and mostly an `item`, the name under which its outcome is compared.
`on` names the connection, `a` unless it says otherwise: a server with state is visited by two of them at a time.
"""

from typing import Any

Step = dict[str, Any]

LISTS = ("Tools", "Resources", "ResourceTemplates", "Prompts")


def connect(on: str = "a", *roots: Step) -> Step:
    return {"item": f"{on}: connect", "do": "connect", "on": on, "roots": list(roots), "patience": 60}


def lists(when: str, on: str = "a") -> list[Step]:
    return [{"item": f"{on}: list {what} {when}", "do": "list", "what": what, "on": on} for what in LISTS]


def call(name: str, arguments: Step | None = None, on: str = "a", note: str = "", **more: Any) -> Step:
    item = f"{on}: call {name}" + (f", {note}" if note else "")
    return {"item": item, "do": "call", "name": name, "arguments": arguments or {}, "on": on, **more}


def read(uri: str, on: str = "a", note: str = "") -> Step:
    return {"item": f"{on}: read {uri}" + (f", {note}" if note else ""), "do": "read", "uri": uri, "on": on}


def prompt(name: str, arguments: Step | None = None, on: str = "a", note: str = "") -> Step:
    item = f"{on}: prompt {name}" + (f", {note}" if note else "")
    return {"item": item, "do": "prompt", "name": name, "on": on, **({"arguments": arguments} if arguments else {})}


def complete(ref: Step, argument: Step, context: Step | None = None, note: str = "") -> Step:
    item = f"a: complete {ref.get('name', ref.get('uri'))} {argument['name']}" + (f", {note}" if note else "")
    more = {"context": {"arguments": context}} if context else {}
    return {"item": item, "do": "complete", "ref": ref, "argument": argument, **more}


def heard(method: str, note: str, within: float = 4, count: int = 1, on: str = "a", **more: Any) -> Step:
    """Notices of `method` since the last such step. `count` 0: none is expected, so all of `within` is waited for."""
    item = f"{on}: heard {method}, {note}"
    method = f"notifications/{method}"
    return {"item": item, "do": "heard", "method": method, "within": within, "count": count, "on": on, **more}


def do(verb: str, item: str, on: str = "a", **more: Any) -> Step:
    return {"item": f"{on}: {item}", "do": verb, "on": on, **more}


def pause(seconds: float, on: str = "a") -> Step:
    return {"do": "pause", "seconds": seconds, "on": on}


def everything() -> list[Step]:
    """server-everything: every feature of the legacy era."""
    roots = [{"uri": "file:///one", "name": "one"}]
    static = "demo://resource/static/document/features.md"
    return [
        connect("a", *roots),
        *lists("at once"),
        # The server asks for the roots 350 ms after `initialized`.
        heard("message", "the line about its roots"),
        *lists("after a while"),
        call("get-roots-list", until="file:///one", within=5),
        do("roots", "tell of changed roots", roots=[*roots, {"uri": "file:///two", "name": "two"}]),
        call("get-roots-list", note="after the change", until="file:///two", within=5),
        do("ping", "ping"),
        *everything_tools(),
        *everything_questions(),
        read(static),
        read("demo://resource/dynamic/text/3"),
        read("demo://resource/dynamic/blob/4"),
        read("demo://resource/dynamic/text/zero", note="a bad number"),
        read("demo://nothing/here", note="missing"),
        prompt("simple-prompt"),
        prompt("args-prompt", {"city": "Bern", "state": "BE"}),
        prompt("args-prompt", note="without its argument"),
        prompt("resource-prompt", {"resourceType": "Text", "resourceId": "2"}),
        prompt("no-such-prompt", note="unknown"),
        complete({"type": "ref/prompt", "name": "completable-prompt"}, {"name": "department", "value": "S"}),
        complete(
            {"type": "ref/prompt", "name": "completable-prompt"},
            {"name": "name", "value": ""},
            {"department": "Sales"},
            "with a context",
        ),
        complete(
            {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"},
            {"name": "resourceId", "value": "1"},
        ),
        complete({"type": "ref/prompt", "name": "no-such-prompt"}, {"name": "city", "value": "B"}, note="unknown"),
        *everything_notices(static),
    ]


def everything_tools() -> list[Step]:
    """Good and bad arguments; get-env shows which environment the server has."""
    data = "data:text/plain;base64,aGVsbG8="
    gzip = "gzip-file-as-resource"
    return [
        call("echo", {"message": "héllo"}),
        call("echo", note="without its argument"),
        call("echo", {"message": 7}, note="a number for a string"),
        call("echo", {"message": "x", "more": True}, note="an unknown argument"),
        call("get-sum", {"a": 1.5, "b": 1e3}),
        call("get-tiny-image"),
        call("get-structured-content", {"location": "New York"}),
        call("get-structured-content", {"location": "Nowhere"}, note="not in the enum"),
        call("get-annotated-message", {"messageType": "error", "includeImage": True}),
        call("get-resource-links", {"count": 2}),
        call("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        call("get-env"),
        call("simulate-research-query", {"topic": "python"}, note="as a plain call"),
        call("no-such-tool", note="unknown"),
        call("", note="an empty name"),
        call(gzip, {"name": "a.gz", "data": data, "outputType": "resourceLink"}),
        heard("resources/list_changed", "after gzip"),
        *lists("after gzip")[1:2],
        read("demo://resource/session/a.gz"),
        call(gzip, {"name": "b.gz", "data": data, "outputType": "resource"}, note="embedded"),
        call(gzip, {"name": "c.gz", "data": "ftp://localhost/x"}, note="a scheme it refuses"),
        call("trigger-long-running-operation", {"duration": 1, "steps": 4}, progress=True),
        call("trigger-long-running-operation", {"duration": 1, "steps": 2}, note="nobody asks for progress"),
        call("trigger-long-running-operation", {"duration": 20, "steps": 80}, cancel=2, note="cancelled"),
        call("echo", {"message": "after"}, note="after a cancelled call"),
    ]


def everything_questions() -> list[Step]:
    return [
        call("trigger-sampling-request", {"prompt": "a haiku", "maxTokens": 50}),
        call("trigger-elicitation-request"),
        call("trigger-url-elicitation", {"url": "https://example.org/", "elicitationId": "one"}),
        call(
            "trigger-url-elicitation",
            {"url": "https://example.org/", "elicitationId": "two", "errorPath": True},
            note="as an error",
        ),
    ]


def everything_notices(uri: str) -> list[Step]:
    """Subscriptions and log lines, which come outside of calls, at once and then every 5 s.

    Over HTTP the server may repeat the lines about roots and subscriptions when a client reconnects.
    """
    repeated = {"without": ["for URI: ", "received from client"]}
    return [
        do("subscribe", "subscribe", uri=uri),
        call("toggle-subscriber-updates"),
        heard("resources/updated", "at once"),
        do("level", "level debug", level="debug"),
        heard("message", "lines before", within=0.5, count=0),
        call("toggle-simulated-logging"),
        heard("message", "a line at once", **repeated),
        heard("resources/updated", "5 s later", within=6),
        heard("message", "5 s later", within=6, **repeated),
        do("unsubscribe", "unsubscribe", uri=uri),
        call("toggle-subscriber-updates", note="off"),
        call("toggle-simulated-logging", note="off"),
        do("level", "a level that is none", level="loud"),
    ]


def filesystem(folder: str) -> list[Step]:
    """server-filesystem, which works on the roots of its client: two clients with a folder each."""
    one, two, three = ({"uri": f"file://{folder}/{name}", "name": name} for name in ("one", "two", "three"))
    allowed = "list_allowed_directories"
    return [
        connect("a", one),
        connect("b", two),
        # The server asks for the roots of its client meanwhile, also on a busy machine.
        pause(2),
        call(allowed, note="the first call"),
        call(allowed, on="b", note="the first call"),
        *lists("at once"),
        call("read_text_file", {"path": f"{folder}/one/one.txt"}),
        call("read_text_file", {"path": f"{folder}/two/two.txt"}, note="of the other client"),
        call("read_text_file", {"path": f"{folder}/two/two.txt"}, on="b"),
        call("read_text_file", {"path": f"{folder}/one/none.txt"}, note="missing"),
        call("read_text_file", {"path": "/etc/passwd"}, note="outside"),
        call("read_media_file", {"path": f"{folder}/one/one.png"}),
        call("write_file", {"path": f"{folder}/one/new.txt", "content": "new\n"}),
        call("edit_file", {"path": f"{folder}/one/new.txt", "edits": [{"oldText": "new", "newText": "old"}]}),
        call("list_directory", {"path": f"{folder}/one"}),
        call("directory_tree", {"path": f"{folder}/one"}),
        call("search_files", {"path": f"{folder}/one", "pattern": "**/*.txt"}),
        call("read_multiple_files", {"paths": [f"{folder}/one/one.txt", f"{folder}/two/two.txt"]}),
        call("read_text_file", note="without its argument"),
        call("no_such_tool", note="unknown"),
        do("roots", "tell of changed roots", roots=[three]),
        call(allowed, note="after the change", until="/three", within=5),
        call("read_text_file", {"path": f"{folder}/three/three.txt"}, note="allowed now"),
        call("read_text_file", {"path": f"{folder}/one/one.txt"}, note="no more allowed"),
        call(allowed, on="b", note="after the change of the other client"),
    ]


def state() -> list[Step]:
    """A FastMCP server with state for each session: two clients, and what each of them has to itself."""
    ada, grace = ({"uri": f"file:///{name}", "name": name} for name in ("ada", "grace"))
    return [
        connect("a", ada),
        connect("b", grace),
        *lists("at once"),
        *lists("at once", on="b"),
        *(call("count", note=f"{number}") for number in (1, 2, 3)),
        call("count", on="b", note="1"),
        call("count", note="4"),
        call("keep", {"text": "mine"}),
        heard("message", "the line of keep"),
        heard("message", "the line of the other client", within=0.5, count=0, on="b"),
        read("state://text"),
        read("state://text", on="b"),
        call("keep", {"text": "yours"}, on="b"),
        read("state://text", note="after the other client kept one"),
        prompt("summary"),
        prompt("summary", on="b"),
        call("client"),
        *state_of_clients(ada, grace),
        *state_that_is_revealed(),
        *state_requests(),
        call("count", note="5"),
        call("count", on="b", note="2"),
        do("ping", "ping"),
        do("ping", "ping", on="b"),
    ]


def state_of_clients(ada: Step, grace: Step) -> list[Step]:
    """Roots, log levels, questions and subscriptions of two clients."""
    more = {"uri": "file:///more", "name": "more"}
    uri = "state://text"
    return [
        call("folders"),
        call("folders", on="b"),
        do("roots", "tell of changed roots", roots=[ada, more]),
        call("folders", note="after the change", until="file:///more", within=5),
        call("folders", on="b", note="after the change of the other client"),
        heard("message", "lines before", within=0.3, count=0),
        heard("message", "lines before", within=0.3, count=0, on="b"),
        do("level", "level warning", level="warning"),
        call("say", {"text": "low", "level": "info"}, note="below the level"),
        call("say", {"text": "high", "level": "error"}, note="above the level"),
        heard("message", "the line that is high enough"),
        call("say", {"text": "low", "level": "info"}, on="b"),
        heard("message", "its level is its own", on="b"),
        do("level", "a level that is none", level="loud"),
        call("ask"),
        call("ask", on="b"),
        call("survey", note="one question after the other"),
        do("subscribe", "subscribe", uri=uri),
        call("touch", {"uri": uri}),
        heard("resources/updated", "after touch", within=2),
        heard("resources/updated", "after the other client's touch", within=0.3, count=0, on="b"),
    ]


def state_that_is_revealed() -> list[Step]:
    """Lists that change for one client, and change back."""
    changed = [f"{what}/list_changed" for what in ("tools", "resources", "prompts")]
    return [
        call("secret", note="before it is revealed"),
        call("reveal"),
        *(heard(method, "after reveal") for method in changed),
        *(heard(method, "after the other client's reveal", 0.3, 0, "b") for method in changed),
        *lists("after reveal"),
        *lists("after the other client's reveal", on="b"),
        call("secret", note="after reveal"),
        call("secret", on="b", note="after the other client's reveal"),
        read("state://secret"),
        read("state://secret", on="b", note="after the other client's reveal"),
        prompt("riddle"),
        prompt("riddle", on="b", note="after the other client's reveal"),
        call("hide"),
        *(heard(method, "after hide") for method in changed),
        *lists("after hide"),
        call("secret", note="after hide"),
    ]


def state_requests() -> list[Step]:
    """Single requests, good and bad, and one that is cancelled."""
    item = {"type": "ref/resource", "uri": "state://item/{name}"}
    return [
        complete({"type": "ref/prompt", "name": "greet"}, {"name": "name", "value": "A"}),
        complete(item, {"name": "name", "value": "G"}),
        complete({"type": "ref/prompt", "name": "none"}, {"name": "name", "value": ""}, note="unknown"),
        read("state://item/x"),
        read("state://nothing/here", note="missing"),
        prompt("greet", {"name": "Ada"}),
        prompt("greet", note="without its argument"),
        prompt("none", note="unknown"),
        call("fail"),
        call("keep", note="without its argument"),
        call("keep", {"text": 7}, note="a number for a string"),
        call("no_such_tool", note="unknown"),
        call("slow", {"seconds": 0.5, "key": "whole"}, progress=True),
        call("slow", {"seconds": 20, "key": "part"}, cancel=2, note="cancelled"),
        call("was_cancelled", {"key": "part"}, until='"true"', within=10),
        call("was_cancelled", {"key": "whole"}, note="for one that was not"),
    ]
