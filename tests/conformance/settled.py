"""Differences that are as they should be, each with its reason. A pair is a leg and a set, an item a scenario, a path a check."""

from differences import Settled

_CANNOT_ASK = (
    "the fixture's tool returns an InputRequiredResult, which its SDK refuses to send over HTTP+SSE, a legacy"
    " connection (`Handler returned an invalid result`): through the gateway or not, that server can not ask so"
)
_NOTHING_TO_END = (
    "the fixture lets its client go in the middle of a call only where the call has an HTTP stream of its own; over"
    " this transport it has none, so nobody is let go and the answer comes on the first stream"
)
_NO_CODE_FLOW = (
    "the SDK's client has no settings for an assertion and starts a login with a code, which fails; the gateway sends the"
    " assertion, so the checks of a login with a code are not made"
)
_NO_NEWS = (
    "the fixture tells of changed lists on `subscriptions/listen` only, which HTTP+SSE, a legacy connection, has not"
)
#: The checks of `input-required-result-…` by scenario.
_QUESTIONS = {
    "basic-elicitation": ("elicitation-incomplete", "elicitation-complete"),
    "basic-list-roots": ("list-roots-incomplete", "list-roots-complete"),
    "basic-sampling": ("sampling-incomplete", "sampling-complete"),
    "ignore-extra-params": ("ignore-unexpected-params",),
    "capability-check": ("respect-client-capabilities",),
    "missing-input-response": ("missing-response-rerequests",),
    "multi-round": ("multi-round-r1", "multi-round-r2", "multi-round-r3"),
    "multiple-input-requests": ("multiple-inputs-incomplete", "multiple-inputs-complete"),
    "non-tool-request": ("non-tool-incomplete", "non-tool-complete"),
    "request-state": ("request-state-incomplete", "request-state-complete"),
    "result-type": ("result-type-included",),
    "tampered-state": ("reject-tampered-state",),
}

SETTLED: tuple[Settled, ...] = (
    *(
        Settled(
            ("sse*/2026-07-28",),
            (f"input-required-result-{scenario}",),
            tuple(f"sep-2322-{check}" for check in checks),
            _CANNOT_ASK,
        )
        for scenario, checks in _QUESTIONS.items()
    ),
    Settled(
        ("sse*/2025-11-25", "stdio*/2025-11-25"),
        ("server-sse-polling",),
        ("server-sse-disconnect-resume",),
        _NOTHING_TO_END,
    ),
    Settled(
        ("sse*/2026-07-28",),
        ("server-stateless",),
        tuple(f"sep-2575-server-sends-{what}-list-changed-on-subscription" for what in ("tools", "prompts")),
        _NO_NEWS,
    ),
    Settled(
        ("client/2025-11-25", "client/2026-07-28"),
        ("auth/wif-jwt-bearer",),
        (
            "authorization-request",
            *(f"pkce-{what}" for what in ("code-challenge-sent", "s256-method-used", "code-verifier-sent")),
            "pkce-verifier-matches-challenge",
        ),
        _NO_CODE_FLOW,
    ),
)
