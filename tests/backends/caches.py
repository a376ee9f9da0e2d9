"""What goes wrong with Redis: gone, silent, slow. It may cost time, never a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from clients import Rest
from load import Load, failures, slowest, some_of_ten
from world import Checks, Gateway, Lab, Redis, SlowWire, registry, until

#: Seconds that each fault lasts. RULES want the pause to be 30 s long.
KILLED, PAUSED, SLOW = 8.0, 30.0, 8.0
#: Seconds a call may take while Redis is at fault: R2R's own time and what the machine adds.
BEARABLE = 5.0


def faults(binary: Path, lab: Lab, folder: Path) -> Checks:
    """Searches go on while Redis is killed, paused and slow, and the cache is used again afterwards."""
    check = Checks("redis-faults")
    with ExitStack() as stack:
        redis = stack.enter_context(Redis(folder / "redis"))
        wire = stack.enter_context(SlowWire(redis.port))
        cache = {"type": "redis", "url": f"redis://127.0.0.1:{wire.port}/"}
        asked = registry(lab, "backends-redis-faults", folder, cache=cache)
        gateway = stack.enter_context(Gateway(binary, asked, folder / "redis-faults.log"))
        client = stack.enter_context(Rest(gateway.port))
        first = client.call("r2r_search", some_of_ten(0))
        check.that("a first call comes through", first.ok, first)
        again = client.call("r2r_search", some_of_ten(0))
        check.that("and is cached by Redis", again.data.get("cached") is True and redis.keys(), again)

        def during(what: str, seconds: float, begin: Callable[[], None], end: Callable[[], None]) -> None:
            began = time.monotonic()
            with Load(gateway.port, 8, some_of_ten, pause=0.02) as load:
                time.sleep(1)
                begin()
                time.sleep(seconds)
                end()
                _wait_for_hits(client)
            made = load.since(began)
            check.that(f"{what}: 0 of {len(made)} calls fail", made and not failures(made), failures(made))
            check.that(f"{what}: none waits for it", slowest(made) < BEARABLE, f"{slowest(made):.2f} s")
            check.same(f"{what}: none hangs", load.hanging(), 0)
            check.that(f"{what}: afterwards Redis answers again", _wait_for_hits(client), "no hit")
            check.note(f"{what} for {seconds:g} s: slowest call {slowest(made) * 1000:.0f} ms")

        during("slow", SLOW, lambda: setattr(wire, "delay", 1.0), lambda: setattr(wire, "delay", 0.0))
        during("paused", PAUSED, redis.pause, redis.resume)
        revived: list[Redis] = []

        def revive() -> None:
            revived.append(stack.enter_context(Redis(folder / "redis", redis.port)))

        during("killed", KILLED, redis.kill, revive)
        check.that("what was found since is in the new Redis", revived and revived[0].keys())
        counted = _counted(client)
        wanted = ("switchyard_cache_hits_total", "switchyard_cache_misses_total", "switchyard_cache_faults_total")
        check.that("the metrics count hits, misses and faults", all(counted.get(one) for one in wanted), counted)
    return check


def _wait_for_hits(client: Rest) -> bool:
    """A breaker in front of Redis may take a while to let calls through."""
    query = {"query": f"Is the cache back at {time.monotonic()}?", "limit": 1}

    def hit() -> bool:
        return client.call("r2r_search", query).data.get("cached") is True

    return bool(until("the cache is used again", 60, hit, 0.2))


def _counted(client: Rest) -> dict[str, float]:
    """What the metrics say of the cache, all areas together."""
    counted: dict[str, float] = {}
    for line in client.text("/metrics").splitlines():
        if line.startswith("switchyard_cache_"):
            name, value = line.partition("{")[0].split()[0], line.split()[-1]
            counted[name] = counted.get(name, 0) + float(value)
    return counted
