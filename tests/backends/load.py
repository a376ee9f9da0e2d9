"""Callers in parallel over REST, and what became of each of their calls."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clients import Outcome, Rest

#: Longer than any deadline of a test: a call that takes this long hangs.
HANGS = 60


@dataclass(frozen=True)
class Made:
    """A call that came back, `at` seconds on the clock of the machine."""

    at: float
    outcome: Outcome


class Load:
    """So many callers that search without pause while the `with` block runs."""

    def __init__(self, port: int, callers: int, arguments: Callable[[int], dict[str, Any]], pause: float = 0) -> None:
        self._port, self._arguments, self._pause = port, arguments, pause
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._number = 0
        self.made: list[Made] = []
        self._callers = [threading.Thread(target=self._call, daemon=True) for _ in range(callers)]

    def __enter__(self) -> Load:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *how: Any) -> None:
        self._over.set()
        if kind:  # the run is over: nobody waits for the callers
            return
        for caller in self._callers:
            caller.join(HANGS + 5)

    def hanging(self) -> int:
        """Callers that did not come back after the end."""
        return sum(caller.is_alive() for caller in self._callers)

    def since(self, at: float) -> list[Outcome]:
        """What came back after this moment."""
        with self._lock:
            return [made.outcome for made in self.made if made.at >= at]

    def outcomes(self) -> list[Outcome]:
        return self.since(0)

    def _call(self) -> None:
        with Rest(self._port, HANGS) as client:
            while not self._over.is_set():
                with self._lock:
                    self._number += 1
                    number = self._number
                outcome = client.call("r2r_search", self._arguments(number))
                with self._lock:
                    self.made.append(Made(time.monotonic(), outcome))
                self._over.wait(self._pause)


def failures(outcomes: list[Outcome]) -> Counter[str]:
    """How often each kind of failure came."""
    return Counter(one.code for one in outcomes if not one.ok)


def slowest(outcomes: list[Outcome]) -> float:
    """The longest that a call took, in seconds."""
    return max((one.took for one in outcomes), default=0)


def different(number: int) -> dict[str, Any]:
    """A search that nobody made before, so no cache answers it."""
    return {"query": f"Which crane lifts {number} tonnes?", "limit": 3, "search_mode": "basic"}


def some_of_ten(number: int) -> dict[str, Any]:
    """One of ten searches, which caches answer after the first time."""
    return different(number % 10)
