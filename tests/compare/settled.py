"""Differences that are as they should be, each with its reason.

A `*` in a pattern stands for any text, and nothing else is special. A pattern of pairs that no difference needs any
more fails the step, as does a difference that no entry has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache

from differences import Difference


@dataclass(frozen=True)
class Settled:
    """Places that differ for a reason, and what they have through Switchyard; all four are patterns."""

    #: `server/client`.
    pairs: tuple[str, ...]
    items: tuple[str, ...]
    paths: tuple[str, ...]
    reason: str
    #: As the report prints it, so at most 300 characters.
    through: tuple[str, ...] = ("*",)
    #: Whether timing decides, so that a run without the difference is fine as well.
    racing: bool = False

    def excuses(self, one: Difference) -> bool:
        """Whether this is about that difference."""
        return _any(self.items, one.item) and _any(self.paths, one.path) and _any(self.through, one.through)


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(_compiled(pattern).fullmatch(text) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")))


#: Clients that meet the modern era through Switchyard; over SSE there is only the legacy one.
_MODERN = tuple(
    f"{server}/{client}"
    for server in (
        "everything-stdio",
        "everything-http",
        "filesystem-stdio",
        "state-*",
        "session-tools-stdio",
        "session-tools-http",
    )
    for client in ("python", "fastmcp")
)


def _modern(*servers: str) -> tuple[str, ...]:
    return tuple(pair for pair in _MODERN if pair.startswith(servers))


def _legacy(*servers: str) -> tuple[str, ...]:
    clients = ("typescript-1", "typescript-2", "python-legacy", "fastmcp-legacy")
    return tuple(f"{server}/{client}" for server in servers for client in clients)


_UNKNOWN_TOOL = (
    "a tool that is not listed is refused by Switchyard with the protocol error -32602, as the specification has it;"
    " these servers answer with a result that has isError"
)
_UNKNOWN_PROMPT = "a prompt that is not listed is refused by Switchyard with the same code, in its own words"
_UNKNOWN_LEVEL = (
    "a log level that does not exist is refused by Switchyard with -32602, the code for invalid parameters; the server"
    " answers -32603"
)
_NO_SUCH_LIST = (
    "Switchyard answers lists itself, and gives an empty one for a server without that capability; the capability is"
    " declared neither directly nor through Switchyard"
)
_EXTENSIONS = (
    "Switchyard speaks the modern era with this server, which declares its extensions in that era only; the"
    " capabilities of a legacy client have them as well"
)
_ERA = "directly this client falls back to the legacy era; Switchyard speaks the modern one with it and bridges"
_LISTEN = (
    "Switchyard answers `subscriptions/listen` for a server that does not know it, and so declares that it tells of"
    " changed lists"
)
_NAMED_IN_LISTS = "in the modern era each result names the server that made it; Switchyard makes the lists"
_NO_PING = "the modern era has no `ping`; Switchyard refuses it in its own words"
_NO_LEVEL = "the modern era has no `logging/setLevel`"
_NO_LINES = (
    "in the modern era a log line belongs to a request that asked for log lines; this client asked for none, and lines"
    " outside of calls do not exist"
)
_SUBSCRIPTION = "in the modern era each notice names the subscription that it belongs to"
_TASK = (
    "the tool works as a task only. In the modern era the server decides that, so Switchyard starts the task and"
    " answers with its result"
)
_URL = (
    "in the modern era a URL to visit is a question without `elicitationId` and never the error -32042, so Switchyard"
    " asks the client"
)
_NO_CHANGED_ROOTS = "the modern era has no `roots/list_changed`, and this server asks for roots once unless it is told"
_AT_ITS_START = (
    "the server adds tools for this client when it is initialized, and tells of that. Through Switchyard the first list"
    " of a client waits for these tools; so the notice comes only if a list came before it"
)
_ONE_PRINCIPAL = (
    "clients of the modern era have no session: requests with one credential share the connection that `per_session`"
    " makes, and here both clients have none"
)

SETTLED: tuple[Settled, ...] = (
    Settled(("*",), ("*: connect",), ("result.serverInfo.*",), "Switchyard answers the handshake, as itself"),
    Settled(
        ("everything-*", "filesystem-*", "state-*", "session-tools-*"),
        ("a: call *, unknown", "a: call , an empty name", "*: call vault, *"),
        ("result", "error"),
        _UNKNOWN_TOOL,
        ("nothing", '{"code": -32602, "message": "*there is no tool called *'),
    ),
    Settled(
        ("everything-*", "state-*", *_modern("session-tools-http")),
        ("a: prompt *, unknown", "a: prompt robbery", "a: complete no-such-prompt *"),
        ("error.message", "error.data"),
        _UNKNOWN_PROMPT,
        ('"*there is no prompt called *', '{"code": "prompt_not_found", *'),
    ),
    Settled(
        ("everything-*/typescript-1", "everything-*/typescript-2"),
        ("a: a level that is none",),
        ("error.*",),
        _UNKNOWN_LEVEL,
        ("-32602", '*params.level must be one of *'),
    ),
    Settled(
        ("filesystem-*/typescript-1", "filesystem-*/python*", "filesystem-*/fastmcp*"),
        ("a: list Resources *", "a: list ResourceTemplates *", "a: list Prompts *"),
        ("result", "error"),
        _NO_SUCH_LIST,
        ("nothing", '*: []*'),
    ),
    Settled(
        _legacy("state-*", "session-tools-*"), ("*: connect",), ("result.capabilities.extensions",), _EXTENSIONS
    ),
    Settled(
        _modern("everything", "filesystem"),
        ("*: connect",),
        ("result.protocolVersion", "result.capabilities.tasks", "result.capabilities.extensions", "result.listening"),
        _ERA,
    ),
    Settled(
        _modern("state", "session-tools"),
        ("*: connect",),
        ("result.capabilities.*.listChanged", "result.listening.*"),
        _LISTEN,
    ),
    Settled(_MODERN, ("*: list *",), ("result._meta*", "result.ttlMs"), _NAMED_IN_LISTS),
    Settled(_modern("everything", "state"), ("a: ping",), ("result", "error", "error.*"), _NO_PING),
    Settled(_modern("everything"), ("a: level debug",), ("result", "error"), _NO_LEVEL),
    Settled(("everything-*/fastmcp",), ("a: a level that is none",), ("error.thrown",), _NO_LEVEL),
    Settled(_modern("everything"), ("a: heard message, *",), ("*",), _NO_LINES),
    Settled(("everything-*/python",), ("a: kinds of notices",), ("notifications/message",), _NO_LINES, ("nothing",)),
    Settled(
        _modern("everything", "session-tools-stdio"),
        ("a: heard *_changed, *", "a: heard resources/updated, *"),
        ("result*._meta",),
        _SUBSCRIPTION,
        ('{"io.modelcontextprotocol/subscriptionId": *',),
    ),
    Settled(_modern("everything"), ("a: call simulate-research-query, *",), ("result.*",), _TASK),
    Settled(_modern("everything"), ("a: call trigger-url-elicitation, as an error",), ("*",), _URL),
    Settled(
        _modern("everything"),
        ("a: call trigger-url-elicitation",),
        ("asked[0].params.elicitationId",),
        _URL,
        ("nothing",),
    ),
    Settled(
        _modern("everything"),
        ("a: call get-roots-list, after the change",),
        ("result.content[0].text",),
        _NO_CHANGED_ROOTS,
        ('"Current MCP Roots (1 total)*',),
    ),
    Settled(
        _modern("filesystem"),
        (
            "a: call list_allowed_directories, after the change",
            "a: call read_text_file, allowed now",
            "a: call read_text_file, no more allowed",
        ),
        ("result.*",),
        _NO_CHANGED_ROOTS,
    ),
    Settled(
        ("everything-*",), ("a: kinds of notices",), ("notifications/tools/list_changed",), _AT_ITS_START, racing=True
    ),
    Settled(
        _modern("filesystem"),
        ("b: call list_allowed_directories, *", "b: call read_text_file", "b: kinds of questions"),
        ("result.*", "roots/list"),
        _ONE_PRINCIPAL,
    ),
    Settled(
        _modern("session-tools-stdio"), ("b: * after the other client's unlock", "b: kinds *"), ("*",), _ONE_PRINCIPAL
    ),
)


def reason(pair: str, one: Difference, entries: Iterable[Settled] = SETTLED) -> str | None:
    """Why a difference is as it should be, if it is."""
    return next((entry.reason for entry in entries if _any(entry.pairs, pair) and entry.excuses(one)), None)


def stale(
    found: Collection[tuple[str, Difference]], ran: Collection[str], entries: Iterable[Settled] = SETTLED
) -> list[tuple[str, Settled]]:
    """Patterns of pairs that ran and that no difference needed, with their entries."""
    return [
        (pattern, entry)
        for entry in entries
        if not entry.racing
        for pattern in entry.pairs
        if any(_any([pattern], pair) for pair in ran)
        and not any(_any([pattern], pair) and entry.excuses(one) for pair, one in found)
    ]
