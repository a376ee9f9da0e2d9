"""Differences that are as they should be, each with its reason.

An entry that no difference needs any more fails the step, so this list can only shrink unseen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from differences import Difference


@dataclass(frozen=True)
class Settled:
    """The checks of one scenario that differ for a reason; `leg` is a pattern (`sse*`)."""

    leg: str
    revision: str
    scenario: str
    checks: tuple[str, ...]
    reason: str

    def matches(self, leg: str, revision: str, one: Difference) -> bool:
        """Whether this is the reason of that difference."""
        here = revision == self.revision and fnmatchcase(leg, self.leg)
        return here and one.scenario == self.scenario and one.check in self.checks


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


def _input_required(scenario: str, *checks: str) -> Settled:
    checks = tuple(f"sep-2322-{check}" for check in checks)
    return Settled("sse*", "2026-07-28", f"input-required-result-{scenario}", checks, _CANNOT_ASK)


def _no_code_flow(revision: str) -> Settled:
    checks = (
        "authorization-request",
        *(f"pkce-{what}" for what in ("code-challenge-sent", "s256-method-used", "code-verifier-sent")),
        "pkce-verifier-matches-challenge",
    )
    return Settled("client", revision, "auth/wif-jwt-bearer", checks, _NO_CODE_FLOW)


SETTLED: tuple[Settled, ...] = (
    _input_required("basic-elicitation", "elicitation-incomplete", "elicitation-complete"),
    _input_required("basic-list-roots", "list-roots-incomplete", "list-roots-complete"),
    _input_required("basic-sampling", "sampling-incomplete", "sampling-complete"),
    _input_required("ignore-extra-params", "ignore-unexpected-params"),
    _input_required("capability-check", "respect-client-capabilities"),
    _input_required("missing-input-response", "missing-response-rerequests"),
    _input_required("multi-round", "multi-round-r1", "multi-round-r2", "multi-round-r3"),
    _input_required("multiple-input-requests", "multiple-inputs-incomplete", "multiple-inputs-complete"),
    _input_required("non-tool-request", "non-tool-incomplete", "non-tool-complete"),
    _input_required("request-state", "request-state-incomplete", "request-state-complete"),
    _input_required("result-type", "result-type-included"),
    _input_required("tampered-state", "reject-tampered-state"),
    Settled("sse*", "2025-11-25", "server-sse-polling", ("server-sse-disconnect-resume",), _NOTHING_TO_END),
    Settled("stdio*", "2025-11-25", "server-sse-polling", ("server-sse-disconnect-resume",), _NOTHING_TO_END),
    Settled(
        "sse*",
        "2026-07-28",
        "server-stateless",
        tuple(f"sep-2575-server-sends-{what}-list-changed-on-subscription" for what in ("tools", "prompts")),
        _NO_NEWS,
    ),
    _no_code_flow("2025-11-25"),
    _no_code_flow("2026-07-28"),
)


def reason(leg: str, revision: str, one: Difference) -> str | None:
    """Why a difference is as it should be, if it is."""
    return next((entry.reason for entry in SETTLED if entry.matches(leg, revision, one)), None)


def stale(found: Iterable[tuple[str, str, Difference]], ran: Iterable[tuple[str, str]]) -> list[Settled]:
    """Entries whose leg and set ran, and that nothing needed."""
    found, ran = list(found), list(ran)
    possible = [
        entry
        for entry in SETTLED
        if any(fnmatchcase(leg, entry.leg) and revision == entry.revision for leg, revision in ran)
    ]
    return [entry for entry in possible if not any(entry.matches(*difference) for difference in found)]
