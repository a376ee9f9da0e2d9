"""Tokens that expire, cannot be renewed for a while, or are revoked by a logout. Each function is one check."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lab import NOTES, PEOPLE, Lab, Principal, check, until
from load import calling

#: Expired tokens in the check of renewals, over all accounts.
EXPIRIES = 100
#: Seconds that a token lives in these checks. A gateway renews it two seconds before, so after one.
SHORT = 3
#: Seconds without an authorization server, and seconds afterwards in which a renewal is tried again.
OUTAGE, RECOVERY = 12, 40
#: Requests that may arrive in half of an outage. In 30 s each login is tried seven times at most. Besides the two of the
#: check these are `shared` and `machine`, which looks for the login service again each time.
MOST_REQUESTS = 16


@contextmanager
def short_tokens(lab: Lab, names: Sequence[str] = ("ann", "ben")) -> Iterator[list[Principal]]:
    """Callers with tokens of a few seconds. Afterwards their next tokens are long ones."""
    lab.auth.tell("ttl", seconds=SHORT)
    try:
        found = [lab.principals[name] for name in names]
        for person in found:
            person.log_in_well()
        yield found
    finally:
        lab.auth.tell("ttl", seconds=3600)
    time.sleep(SHORT)
    for person in found:
        person.ensure_logged_in()


def each_expired_token_is_renewed_once(lab: Lab) -> None:
    with short_tokens(lab, PEOPLE) as everyone, calling(everyone, 64) as callers:
        callers.everyone_calls_again(1)
        before, known = lab.auth.requests("refresh_token"), lab.notes.state()["tokens"]

        def are_renewed() -> bool:
            _no_renewal_failed(lab)
            return lab.auth.requests("refresh_token") - before >= EXPIRIES

        until("the tokens are renewed", are_renewed, patience=90)
        renewed, used = lab.auth.requests("refresh_token") - before, lab.notes.state()["tokens"] - known
        check(callers.sum() >= 10 * renewed, f"{callers.sum()} calls are too few for {renewed} renewals")
        check(used >= renewed - len(PEOPLE), f"only {used} of {renewed} new tokens were used")
    check(not callers.wrong, f"{len(callers.wrong)} of {callers.sum()} calls failed: {callers.wrong[:2]}")


def _no_renewal_failed(lab: Lab) -> None:
    refused = lab.auth.requests("refresh_token", "error")
    check(refused == 0, f"{refused} renewals were refused: {lab.auth.state()['failures']}")


def an_outage_of_the_authorization_server_loses_no_token(lab: Lab) -> None:
    with short_tokens(lab) as both:
        logins = lab.auth.requests("authorization_code")
        try:
            lab.auth.tell("down", how="failing")
            _watch_outage(both, OUTAGE / 2)
            attempts = lab.auth.state()["whileDown"]
            check(1 <= attempts <= MOST_REQUESTS, f"{attempts} requests in {OUTAGE / 2} s of an outage")
            lab.auth.tell("up")
            lab.auth.tell("down", how="closed")
            _watch_outage(both, OUTAGE / 2)
        finally:
            lab.auth.tell("up")
        for person in both:
            note = until(f"{person.name} can call again", person.read, patience=RECOVERY)
            check(note == NOTES[person.name], f"{person.name} reads {note}")
        check(lab.auth.requests("authorization_code") == logins, "somebody had to log in again")


def _watch_outage(both: list[Principal], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for person in both:
            person.read()
            state = person.login()["state"]
            check(state != "login_required", f"the outage makes a login of {person.name} necessary")
        time.sleep(0.2)


def a_logout_revokes_and_deletes(lab: Lab) -> None:
    ann, ben = (lab.principals[name] for name in ("ann", "ben"))
    for person in (ann, ben):
        person.ensure_logged_in()
    revoked, size = lab.auth.state()["revocations"], len(vault_of(lab))
    answer = ann.log_out()
    check(answer.status in (200, 204), f"the logout is answered with {answer}")
    check(lab.auth.state()["revocations"] > revoked, "nothing was revoked")
    check(len(vault_of(lab)) < size, "the vault is as large as before")
    check(ann.login()["state"] == "login_required", f"after the logout the login is {ann.login()}")
    arrived = lab.notes.requests("ann")
    check(ann.read() is None, "a call succeeds after the logout")
    check(lab.notes.requests("ann") == arrived, "a call after the logout reaches the server")
    check(until("ben can call", ben.read) == NOTES["ben"], "the logout of one account ends the other")


def vault_of(lab: Lab) -> bytes:
    """The bytes of all files of state."""
    folder = lab.out / "gateway.state"
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


CHECKS = (
    each_expired_token_is_renewed_once,
    an_outage_of_the_authorization_server_loses_no_token,
    a_logout_revokes_and_deletes,
)
