"""Tokens that expire, are revoked, or cannot be renewed for a while. Each function is one check."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import quote

from lab import MACHINE_SECRET, NOTES, Lab, Principal, check, until
from load import calling

#: Expired tokens in the check of renewals, over both accounts.
EXPIRIES = 100
#: Seconds without an authorization server, in place of 60: tokens of two seconds in place of minutes.
OUTAGE = 12
#: Token requests that two accounts may make in such an outage: one each in two seconds.
MOST_REQUESTS = 16


def people(lab: Lab) -> list[Principal]:
    """The two callers, logged in."""
    found = [lab.principals[name] for name in ("ann", "ben")]
    for person in found:
        person.ensure_logged_in()
    return found


def each_expired_token_is_renewed_once(lab: Lab) -> None:
    with calling(people(lab), 64) as callers:
        callers.everyone_calls_again(1)
        before = lab.auth.requests("refresh_token")
        for number in range(1, EXPIRIES // 2 + 1):
            lab.notes.tell("expire")
            # The second call began after the tokens had expired, so it ended with a new one.
            callers.everyone_calls_again(2)
            renewed = lab.auth.requests("refresh_token") - before
            check(renewed == 2 * number, f"{renewed} renewals for {2 * number} expired tokens")
    refused = lab.auth.requests("refresh_token", "error")
    check(refused == 0, f"{refused} renewals were refused: {lab.auth.state()['failures']}")
    check(not callers.wrong, f"{len(callers.wrong)} of {callers.sum()} calls failed: {callers.wrong[:2]}")


def tokens_are_renewed_before_they_expire(lab: Lab) -> None:
    both = people(lab)
    try:
        _short_tokens(lab, both, seconds=4)
        refused = lab.notes.state()["requests"].get("refused", 0)
        before = lab.auth.requests("refresh_token")
        with calling(both, 16) as callers:
            time.sleep(12)
        renewed = lab.auth.requests("refresh_token") - before
        check(4 <= renewed <= 24, f"{renewed} renewals of two tokens of 4 s in 12 s")
        check(not callers.wrong, f"{len(callers.wrong)} of {callers.sum()} calls failed: {callers.wrong[:2]}")
        now = lab.notes.state()["requests"].get("refused", 0)
        check(now == refused, f"{now - refused} calls came with an expired token")
    finally:
        _long_tokens(lab, both)


def an_outage_of_the_authorization_server_loses_no_token(lab: Lab) -> None:
    both = people(lab)
    logins = lab.auth.requests("authorization_code")
    try:
        _short_tokens(lab, both, seconds=2)
        lab.auth.tell("down", how="failing")
        _watch_outage(both, OUTAGE / 2)
        attempts = lab.auth.state()["whileDown"]
        check(1 <= attempts <= MOST_REQUESTS, f"{attempts} token requests in {OUTAGE / 2} s of an outage")
        lab.auth.tell("up")
        lab.auth.tell("down", how="closed")
        _watch_outage(both, OUTAGE / 2)
        lab.auth.tell("up")
        for person in both:
            note = until(f"{person.name} can call again", person.read, patience=40)
            check(note == NOTES[person.name], f"{person.name} reads {note}")
    finally:
        if lab.auth.state()["down"]:
            lab.auth.tell("up")
        _long_tokens(lab, both)
    check(lab.auth.requests("authorization_code") == logins, "somebody had to log in again")


def _watch_outage(both: list[Principal], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for person in both:
            person.read()
            state = person.login()["state"]
            check(state != "login_required", f"the outage makes a login of {person.name} necessary")
        time.sleep(0.2)


def _short_tokens(lab: Lab, both: list[Principal], seconds: int) -> None:
    """Makes the current tokens ones of a few seconds."""
    lab.auth.tell("ttl", seconds=seconds)
    _renew(lab, both)


def _long_tokens(lab: Lab, both: list[Principal]) -> None:
    lab.auth.tell("ttl", seconds=3600)
    _renew(lab, both)


def _renew(lab: Lab, both: list[Principal]) -> None:
    lab.notes.tell("expire")
    for person in both:
        until(f"{person.name} can call", person.read, patience=40)


def a_revoked_grant_costs_one_renewal(lab: Lab) -> None:
    both = ann, ben = people(lab)
    failed = lab.auth.requests("refresh_token", "error")
    lab.auth.tell("revoke", account="ben")
    lab.notes.tell("expire")
    check(ben.read() is None, "a call with a revoked grant succeeds")
    until("the login is required", lambda: ben.login()["state"] == "login_required")
    check(lab.auth.requests("refresh_token", "error") == failed + 1, "a revoked grant is not tried once")
    check(until("ann can call", ann.read) == NOTES["ann"], "the other account has lost its login")
    renewals, arrived = _token_requests(lab), lab.notes.requests()
    for _ in range(20):
        check(ben.read() is None, "a call with a revoked grant succeeds")
    time.sleep(2)
    check(_token_requests(lab) == renewals, "dead credentials are sent to the authorization server")
    check(lab.notes.requests() == arrived, "dead credentials are sent to the server")
    ben.ensure_logged_in()
    check([person.read() for person in both] == [NOTES[person.name] for person in both], "the new login does not work")


def _token_requests(lab: Lab) -> int:
    return sum(sum(row.values()) for row in lab.auth.state()["tokenRequests"].values())


def a_logout_revokes_and_deletes(lab: Lab) -> None:
    ann, ben = people(lab)
    revoked, size = lab.auth.state()["revocations"], len(vault_of(lab))
    answer = ann.log_out()
    check(answer.status in (200, 204), f"the logout is answered with {answer}")
    check(lab.auth.state()["revocations"] > revoked, "nothing was revoked")
    check(len(vault_of(lab)) < size, "the vault is as large as before")
    check(ann.login()["state"] == "login_required", f"after the logout the login is {ann.login()}")
    arrived = lab.notes.requests()
    check(ann.read() is None, "a call succeeds after the logout")
    check(lab.notes.requests() == arrived, "a call after the logout reaches the server")
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
    tokens_are_renewed_before_they_expire,
    an_outage_of_the_authorization_server_loses_no_token,
    a_revoked_grant_costs_one_renewal,
    a_logout_revokes_and_deletes,
    no_secret_is_shown,
)
