"""What goes wrong with R2R: tokens that end, a server that dies under load, a password that is wrong."""

from __future__ import annotations

import time
from pathlib import Path

from clients import Rest
from load import Load, different, failures, slowest
from world import Checks, Gateway, Lab, registry, until

LOGIN, REFRESH = "POST /v3/users/login", "POST /v3/users/refresh-token"
#: Seconds that an access token lives in the group `tokens`.
TOKEN_LIFE = 6.0
#: Seconds of calls: several lives.
TOKEN_RUN = 40.0
#: The deadline of a call in the group `outage`, in seconds, and what the machine may add.
DEADLINE, SLACK = 5.0, 3.0


def tokens(binary: Path, lab: Lab, folder: Path) -> Checks:
    """Calls over several lives of a token: nobody notices."""
    check = Checks("tokens")
    lab.again(ACCESS_MINUTES=str(TOKEN_LIFE / 60))
    asked = registry(lab, "backends-tokens", folder, r2r={"cache_ttl": {"search": 0}})
    with Gateway(binary, asked, folder / "tokens.log") as gateway, Rest(gateway.port) as client:
        first = client.call("r2r_search", different(0))
        check.that("a first call comes through", first.ok, first)
        since = lab.mark()
        with Load(gateway.port, 64, different) as load:
            time.sleep(TOKEN_RUN)
        made = load.outcomes()
        pairs = [len(lab.answered(request, since)) for request in (REFRESH, LOGIN)]
        refused = [line for line in lab.answered("POST /v3/retrieval/search", since) if "401" in line]
        lives = TOKEN_RUN / TOKEN_LIFE
        check.that(f"{len(made)} calls over {lives:.0f} lives of a token", len(made) > 10 * lives, len(made))
        check.same("none failed", dict(failures(made)), {})
        check.same("none hangs", load.hanging(), 0)
        # Early refreshes shorten a life, and the deadline of the run cuts one.
        check.that("about one refresh for each life", lives - 2 <= sum(pairs) <= 2 * lives + 2, pairs)
        check.note(f"{pairs[0]} refreshes, {pairs[1]} logins, {len(refused)} searches refused and repeated")
        check.note(f"slowest call {slowest(made):.2f} s")
    lab.again()
    return check


def outage(binary: Path, lab: Lab, folder: Path) -> Checks:
    """R2R is killed under load and comes back."""
    check = Checks("outage")
    server = {"timeout": DEADLINE, "circuit_breaker_threshold": 5, "circuit_breaker_timeout": 1}
    asked = registry(lab, "backends-outage", folder, r2r={"cache_ttl": {"search": 0}}, server=server)
    with Gateway(binary, asked, folder / "outage.log") as gateway, Rest(gateway.port) as client:
        first = client.call("r2r_search", different(0))
        check.that("a first call comes through", first.ok, first)
        with Load(gateway.port, 16, different, pause=0.05) as load:
            time.sleep(3)
            before = load.outcomes()
            check.same("before, none fails", dict(failures(before)), {})
            killed = time.monotonic()
            lab.kill()
            until("the breaker opens", 30, lambda: _breaker(client) == "open")
            check.that(f"the breaker opens, after {time.monotonic() - killed:.1f} s", True)
            time.sleep(3)
            down = load.since(killed)
            lab.up()
            back = time.monotonic()
            until("calls come through again", 60, lambda: any(one.ok for one in load.since(back)))
            check.that(f"calls come through {time.monotonic() - back:.1f} s after R2R is back", True)
            until("the breaker closes", 30, lambda: _breaker(client) == "closed")
            settled = time.monotonic()
            time.sleep(4)
            after = load.since(settled)
        check.that("meanwhile calls failed", sum(failures(down).values()) > 20, failures(down))
        refused = failures(down)["circuit_open"]
        check.that("and the breaker refused most of them", refused > len(down) / 2, failures(down))
        check.that(f"afterwards none of {len(after)} fails", after and not failures(after), failures(after))
        made = load.outcomes()
        check.that(f"no call takes longer than its {DEADLINE:g} s", slowest(made) < DEADLINE + SLACK, slowest(made))
        check.same("none hangs", load.hanging(), 0)
        check.note(f"{len(made)} calls, failures {dict(failures(made))}, slowest {slowest(made):.2f} s")
    return check


def _breaker(client: Rest) -> str:
    breakers = client.get("circuit-breakers")["circuit_breakers"]
    return str(next(one["state"] for one in breakers if one["server"] == "r2r"))


def credentials(binary: Path, lab: Lab, folder: Path) -> Checks:
    """A wrong password is said and not tried over and over; the right one brings the server back."""
    check = Checks("credentials")
    wrong = registry(lab, "backends-credentials", folder, r2r={"password": "not-the-password"})
    since = lab.mark()
    with Gateway(binary, wrong, folder / "credentials.log") as gateway, Rest(gateway.port) as client:
        until("the server has been tried", 30, lambda: client.server()["state"] not in ("connecting", "ready"))
        calls = [client.call("r2r_search", different(number)) for number in range(20)]
        time.sleep(10)
        server = client.server()
        logins = lab.answered(LOGIN, since)
        check.same("the state is auth_failed", server["state"], "auth_failed")
        said = server["last_error"] or ""
        check.that("with the reason", "password" in said.lower() or "credential" in said.lower(), said)
        check.that("no call came through", not any(one.ok for one in calls), calls)
        check.that("each call says why", all("credentials" in one.text for one in calls), calls[0])
        check.that(f"20 calls and 10 s made {len(logins)} logins", 1 <= len(logins) <= 3, logins)
        everything = gateway.log.read_text() + str(server) + "".join(one.text for one in calls)
        check.that("the password is told nowhere", "not-the-password" not in everything)
        client.post("servers/r2r/reconnect")
        until("an operator can try again", 20, lambda: len(lab.answered(LOGIN, since)) > len(logins))
        check.that("an operator can have it tried again", True)
    return check
