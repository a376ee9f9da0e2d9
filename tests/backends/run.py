#!/usr/bin/env python3
"""Switchyard in front of a real R2R and a real Redis: everything that is promised of them, from outside.

See README.md beside this file. Exit code: 0 all checks passed, 1 one failed or the world did not start, 2 wrong
arguments. The first group with a failure is the last that runs, unless `--go-on`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import handbook
from clients import Rest, Sdk
from scenario import Scenario, progress, resources
from world import Checks, Failed, Gateway, Lab, Redis, home, registry, until

#: Seconds that an access token lives in the group `tokens`.
TOKEN_LIFE = 6.0


class World:
    """What all groups share."""

    def __init__(self, binary: Path, peers: Path, lab: Lab, folder: Path) -> None:
        self.binary, self.lab, self.folder = binary, lab, folder
        self._python = str(peers / "bin" / "peer-python")

    @contextmanager
    def gateway(self, leg: str, **changes: Any) -> Iterator[Gateway]:
        """A gateway for one leg of the scenario."""
        asked = registry(self.lab, f"backends-{leg}", self.folder, **changes)
        with Gateway(self.binary, asked, self.folder / f"{leg}.log") as gateway, Rest(gateway.port) as client:
            until("R2R is ready", 20, lambda: client.server()["state"] == "ready")
            yield gateway

    def sdk(self, gateway: Gateway) -> Sdk:
        """An MCP client of that gateway."""
        return Sdk(self._python, f"{gateway.url}/mcp", self.folder / f"{gateway.name}-sdk.log")


def rest(world: World) -> Checks:
    """The scenario through REST, the cache in memory."""
    with world.gateway("rest") as gateway, Rest(gateway.port) as client:
        scenario = Scenario(client, "rest", world.folder)
        check = scenario.run()
        check.same("the server is ready", client.server()["state"], "ready")
    return check


def mcp(world: World) -> Checks:
    """The scenario through a modern MCP client, and the resources."""
    with world.gateway("mcp") as gateway, world.sdk(gateway) as client:
        scenario = Scenario(client, "mcp", world.folder)
        scenario.check.same("the newest revision is spoken", client.revision(), "2026-07-28")
        check = scenario.run()
        resources(check, client, scenario)
        progress(check, client, world.folder)
    return check


def redis(world: World) -> Checks:
    """The scenario with the cache in Redis, which two gateways then share."""
    with Redis(world.folder / "redis") as store:
        cache = {"type": "redis", "url": store.url}
        with world.gateway("redis", cache=cache) as gateway, Rest(gateway.port) as client:
            scenario = Scenario(client, "redis", world.folder)
            check = scenario.run()
            keys = store.keys()
            check.that(f"Redis holds the answers: {len(keys)} keys", keys, keys)
            lives = [store.command("TTL", key) for key in keys]
            # Marks of what was dropped outlive every answer.
            answers = [life for life in lives if 0 < life <= 300]
            check.that("each for a time", answers and all(life > 0 for life in lives), lives)
            query = {"query": "Is this shared between two gateways?", "limit": 3}
            client.call("r2r_search", query)
            # The second has no memory of it, so what it has comes from Redis.
            asked = registry(world.lab, "backends-redis", world.folder, cache=cache)
            with Gateway(world.binary, asked, world.folder / "redis-second.log") as second, Rest(second.port) as other:
                shared = other.call("r2r_search", query)
                check.that("a second gateway has what the first asked", shared.data.get("cached") is True, shared)
                scenario.way = other
                place = world.folder / "harbour-dog.md"
                place.write_text("# The dog of the harbour office\n\nThe dog Bosun guards the bicycles.\n")
                scenario.ingest(place, run_async=False)
                dropped = client.call("r2r_search", query)
                check.that("and its ingest drops it for both", dropped.data.get("cached") is False, dropped)
    return check


def tokens(world: World) -> Checks:
    """Searches over several lives of an access token: each succeeds."""
    check = Checks("tokens")
    world.lab.again(ACCESS_MINUTES=str(TOKEN_LIFE / 60))
    with world.gateway("tokens", r2r={"cache_ttl": {"search": 0}}) as gateway, Rest(gateway.port) as client:
        since, end = world.lab.mark(), time.monotonic() + 4 * TOKEN_LIFE
        made = []
        while time.monotonic() < end:
            made.append(client.call("r2r_search", {"query": f"Which crane lifts {len(made)} tonnes?", "limit": 3}))
            time.sleep(0.2)
        check.same(f"none of {len(made)} calls over four lives of a token fails", [str(one) for one in made if not one.ok], [])
        renewals = [line for request in ("refresh-token", "login") for line in world.lab.answered(f"POST /v3/users/{request}", since)]
        # Early refreshes shorten a life, and the end of the run cuts one.
        check.that("about one renewal for each life", 2 <= len(renewals) <= 10, renewals)
    world.lab.again()
    return check


GROUPS: dict[str, Callable[[World], Checks]] = {
    "rest": rest,
    "mcp": mcp,
    "redis": redis,
    "tokens": tokens,
    "handbook": lambda world: handbook.meaning(world.binary, world.lab.stub, world.folder),
}


def run(world: World, groups: list[str], go_on: bool) -> bool:
    """One after the other; whether all of it was right."""
    made = failed = 0
    for name in groups:
        print(f"\n-- {name}", flush=True)
        began = time.monotonic()
        try:
            check = GROUPS[name](world)
        except Exception as error:  # what a program does not stand is a failure of its group
            check = Checks(name)
            check.that("runs to its end", False, f"{type(error).__name__}: {error}")
        made, failed = made + check.made, failed + check.failed
        print(f"-- {name}: {check.made} checks, {check.failed} failed, {time.monotonic() - began:.0f} s", flush=True)
        if failed and not go_on:
            break
    print(f"\n{made - failed} passed, {failed} failed")
    return not failed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this one; may be repeated")
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    peers = os.environ.get("SWITCHYARD_PEERS")
    parser.add_argument("--peers", type=Path, default=peers, help="what scripts/peers prints")
    parser.add_argument("--home", type=Path, default=home(), help="where the packages of R2R are kept")
    parser.add_argument("--go-on", action="store_true", help="run the other groups after a failure too")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the run even when all passed")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    # Ended from outside, what was started here is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="backends-"))
    folder.chmod(0o755)  # PostgreSQL may run as another user
    passed = False
    try:
        if not asked.peers:
            raise Failed("SWITCHYARD_PEERS is not set: set it to what `scripts/peers` prints")
        began = time.monotonic()
        with Lab(asked.home.resolve(), folder / "lab") as lab:
            print(f"R2R runs, after {time.monotonic() - began:.0f} s; logs: {folder}", flush=True)
            world = World(asked.binary.resolve(), asked.peers.resolve(), lab, folder)
            passed = run(world, asked.group or list(GROUPS), asked.go_on)
    except Failed as error:
        print(f"backends: {error}", file=sys.stderr)
    if passed and not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and configuration files: {folder}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
