"""Differences that are as they should be, each with its reason."""

from differences import Settled

#: Clients of both eras at servers of both eras: they speak the modern one, directly and through Switchyard.
_MODERN = ("state-http/typescript-auto", "state-http/python", "state-http/fastmcp", "state-stdio/python")
_LEGACY = tuple(f"state-*/{client}" for client in ("typescript-1", "typescript-2", "python-legacy", "fastmcp-legacy"))


_UNKNOWN_LEVEL = (
    "a log level that does not exist is refused by Switchyard with -32602, the code for invalid parameters, and its own"
    " words"
)
_NO_SUCH_LIST = (
    "Switchyard answers lists itself, and gives an empty one for a server without that capability; the capability is"
    " declared neither directly nor through Switchyard"
)
_EXTENSIONS = (
    "Switchyard speaks the modern era with this server, which declares its extensions in that era only; the"
    " capabilities of a legacy client have them as well"
)
_LISTEN = (
    "Switchyard answers `subscriptions/listen` for a server that does not know it, and so declares that it tells of"
    " changed lists"
)
_NAMED_IN_LISTS = "in the modern era each result names the server that made it; Switchyard makes the lists"
_NO_PING = "the modern era has neither `ping` nor `logging/setLevel`; Switchyard refuses them in its own words"
_UPDATES = (
    "updates of resources reach the clients that subscribed to them; this server cannot be subscribed to and sends them"
    " to all the same"
)
_STARTS = "a caller that asks for progress hears that its own process is being started, if that takes a while"
_ONE_LEVEL = (
    "over SSE FastMCP has one log level for all its sessions, so that of the other client counts; Switchyard sets the level"
    " of each session"
)
_SUBSCRIPTION = "in the modern era each notice names the subscription that it belongs to"
_FROM_THE_FIRST_CALL = (
    "the session of a client at the server begins with its first call, so what the server adds or says for this client at"
    " its start comes then"
)
_ONE_PRINCIPAL = (
    "clients of the modern era have no session: requests with one credential share the connection that `per_session`"
    " makes, and here both clients have none"
)

SETTLED: tuple[Settled, ...] = (
    Settled(
        ("everything-*/typescript-*", "state-*/typescript-1", "state-*/typescript-2"),
        ("a: a level that is none",),
        ("error.*",),
        _UNKNOWN_LEVEL,
        ("-32602", '*params.level must be one of *'),
    ),
    Settled(
        ("state-*",),
        ("a: heard resources/updated, after touch", "a: kinds of notices"),
        ("result.state://text", "result.length", "notifications/resources/updated"),
        _UPDATES,
        ("nothing", "0"),
    ),
    Settled(
        ("state-sse/*",), ("b: heard message, its level is its own",), ("result.length",), _ONE_LEVEL, racing=True
    ),
    Settled(
        ("filesystem-*/typescript-1", "filesystem-*/python*", "filesystem-*/fastmcp*"),
        ("a: list Resources *", "a: list ResourceTemplates *", "a: list Prompts *"),
        ("result", "error"),
        _NO_SUCH_LIST,
        ("nothing", '*: []*'),
    ),
    Settled(
        _LEGACY, ("*: connect",), ("result.capabilities.extensions",), _EXTENSIONS
    ),
    Settled(
        _MODERN,
        ("*: connect",),
        ("result.capabilities.*.listChanged", "result.listening.*"),
        _LISTEN,
    ),
    Settled(_MODERN, ("*: list *",), ("result._meta*", "result.ttlMs"), _NAMED_IN_LISTS),
    Settled(
        ("state-*/python", "state-*/fastmcp"), ("*: ping", "a: level warning"), ("result", "error", "error.*"), _NO_PING
    ),
    Settled(("state-*/python", "state-*/fastmcp"), ("a: subscribe",), ("result", "error"), _LISTEN),
    Settled(("state-stdio/*",), ("*: kinds of notices",), ("notifications/progress",), _STARTS, racing=True),
    Settled(
        ("state-stdio/python",),
        ("a: heard *_changed, *", "a: heard resources/updated, *"),
        ("result*._meta",),
        _SUBSCRIPTION,
        ('{"io.modelcontextprotocol/subscriptionId": *',),
    ),
    Settled(
        ("everything-*",),
        ("a: list Tools at once", "a: list Tools after a while"),
        ("result.tools.get-roots-list",),
        _FROM_THE_FIRST_CALL,
        ("nothing",),
    ),
    Settled(
        ("everything-*",),
        ("a: heard message, *", "a: kinds of notices"),
        ("result.length", "result[*].data", "notifications/tools/list_changed"),
        _FROM_THE_FIRST_CALL,
        racing=True,
    ),
    Settled(
        ("state-stdio/python",),
        ("b: * after the other client's reveal", "b: kinds *"),
        ("*",),
        _ONE_PRINCIPAL,
    ),
)
