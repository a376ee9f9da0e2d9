"""Tokens that expire, are revoked, or cannot be renewed for a while. Each function is one check."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from lab import MACHINE_SECRET, NOTES, PEOPLE, Lab, Principal, check, until
from load import calling

#: Expired tokens in the check of renewals, over all accounts.
EXPIRIES = 100
#: Seconds that a token lives in these checks. A gateway renews it two seconds before, so after one.
SHORT = 3
#: Seconds without an authorization server: with `--full`, and in the usual run.
FULL_OUTAGE, OUTAGE = 60, 12
#: Requests that may arrive in half of an outage. In 30 s each login is tried seven times at most. Besides the two of the
#: check these are `shared` and `machine`, which looks for the login service again each time.
FULL_MOST_REQUESTS, MOST_REQUESTS = 45, 16
#: Seconds after an outage in which a renewal is tried again, with the longest pause of a minute and without.
FULL_RECOVERY, RECOVERY = 75, 40
#: Seconds after which a token that the server refuses is not taken for one that never worked.
SETTLED = 11


def people(lab: Lab, names: Sequence[str] = ("ann", "ben")) -> list[Principal]:
    """Callers, logged in."""
    found = [lab.principals[name] for name in names]
    for person in found:
        person.ensure_logged_in()
    return found


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


def a_refused_token_is_renewed_once(lab: Lab) -> None:
    both = people(lab)
    time.sleep(SETTLED)
    with calling(both, 64) as callers:
        callers.everyone_calls_again(1)
        before = lab.auth.requests("refresh_token")
        lab.notes.tell("expire")
        # The second call began after the tokens were refused, so it ended with a new one.
        callers.everyone_calls_again(2)
    renewed = lab.auth.requests("refresh_token") - before
    check(renewed == 2, f"{renewed} renewals for two refused tokens")
    _no_renewal_failed(lab)
    check(not callers.wrong, f"{len(callers.wrong)} of {callers.sum()} calls failed: {callers.wrong[:2]}")


def _no_renewal_failed(lab: Lab) -> None:
    refused = lab.auth.requests("refresh_token", "error")
    check(refused == 0, f"{refused} renewals were refused: {lab.auth.state()['failures']}")


def an_outage_of_the_authorization_server_loses_no_token(lab: Lab) -> None:
    usual, full = (OUTAGE, RECOVERY, MOST_REQUESTS), (FULL_OUTAGE, FULL_RECOVERY, FULL_MOST_REQUESTS)
    outage, recovery, most = full if lab.is_full else usual
    with short_tokens(lab) as both:
        logins = lab.auth.requests("authorization_code")
        try:
            lab.auth.tell("down", how="failing")
            _watch_outage(both, outage / 2)
            attempts = lab.auth.state()["whileDown"]
            check(1 <= attempts <= most, f"{attempts} requests in {outage / 2} s of an outage")
            lab.auth.tell("up")
            lab.auth.tell("down", how="closed")
            _watch_outage(both, outage / 2)
        finally:
            lab.auth.tell("up")
        for person in both:
            note = until(f"{person.name} can call again", person.read, patience=recovery)
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


def a_revoked_grant_costs_one_renewal(lab: Lab) -> None:
    failed = lab.auth.requests("refresh_token", "error")
    with short_tokens(lab) as (ann, ben):
        lab.auth.tell("revoke", account="ben")
        until("the login is required", lambda: ben.read() is None and ben.login()["state"] == "login_required")
        arrived = lab.notes.requests("ben")
        for _ in range(20):
            check(ben.read() is None, "a call with a revoked grant succeeds")
        time.sleep(SHORT)
        tried = lab.auth.requests("refresh_token", "error") - failed
        check(tried == 1, f"{tried} renewals of a revoked grant")
        check(lab.notes.requests("ben") == arrived, "dead credentials are sent to the server")
        check(until("ann can call", ann.read) == NOTES["ann"], "the other account has lost its login")
        ben.log_in_well()
        check(ben.read() == NOTES["ben"], "the new login does not work")


def a_logout_revokes_and_deletes(lab: Lab) -> None:
    ann, ben = people(lab)
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


def no_secret_is_shown(lab: Lab) -> None:
    """Searches logs, answers, the vault and the command lines for every token that was issued, and for the secrets."""
    secrets = [*lab.auth.state()["tokens"], MACHINE_SECRET]
    check(len(secrets) > EXPIRIES, f"there are only {len(secrets)} secrets to look for")
    check(len(vault_of(lab)) > 0, "there is no vault")
    places = {"vault": vault_of(lab), "command line": Path(f"/proc/{lab.gateway.pid()}/cmdline").read_bytes()}
    for log in lab.out.glob("gateway*"):
        if log.is_file():
            places[log.name] = log.read_bytes()
    answers = [text for person in lab.principals.values() for caller in person.callers for text in caller.seen]
    places["answers"] = "\n".join(answers).encode()
    check(len(answers) > 50, f"there are only {len(answers)} answers to look at")
    for place, content in places.items():
        for secret in secrets:
            for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1]):
                check(form.encode() not in content, f"a secret is in the {place}: {secret[:12]}…")


CHECKS = (
    each_expired_token_is_renewed_once,
    a_refused_token_is_renewed_once,
    an_outage_of_the_authorization_server_loses_no_token,
    a_revoked_grant_costs_one_renewal,
    a_logout_revokes_and_deletes,
    no_secret_is_shown,
)
