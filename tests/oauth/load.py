"""Callers in threads that read their own notes, and count what they got."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lab import NOTES, Principal, Wrong, text_of


class Callers:
    """Threads that call without a pause. `wrong` has every answer that is not the note of the caller's account."""

    def __init__(self, principals: Sequence[Principal], number: int, limit: int | None = None) -> None:
        self.wrong: list[Any] = []
        self.calls: Counter[int] = Counter()
        self._left = limit
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(index, principals[index % len(principals)]), daemon=True)
            for index in range(number)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.join()

    def join(self) -> None:
        """Waits until each thread has ended its last call."""
        for thread in self._threads:
            thread.join(60)

    def sum(self) -> int:
        return sum(self.calls.values())

    def everyone_calls_again(self, times: int, patience: float = 60) -> None:
        """Waits until each thread has ended this many more calls."""
        before = dict(self.calls)
        deadline = time.monotonic() + patience
        while any(self.calls[index] < before.get(index, 0) + times for index in range(len(self._threads))):
            if time.monotonic() > deadline:
                raise Wrong(f"not every caller had {times} answers within {patience} s; wrong: {self.wrong[:3]}")
            time.sleep(0.01)

    def _run(self, index: int, principal: Principal) -> None:
        caller = principal.caller()
        while not self._stop.is_set() and self._takes_one():
            try:
                answer = caller.call("notes", "read_note")
            except Exception as error:  # noqa: BLE001  any failure is a failed call
                answer = {"exception": repr(error)}
            if text_of(answer) != NOTES[principal.name]:
                self.wrong.append((principal.name, answer))
            self.calls[index] += 1

    def _takes_one(self) -> bool:
        if self._left is None:
            return True
        with self._lock:
            self._left -= 1
            return self._left >= 0


@contextmanager
def calling(principals: Sequence[Principal], number: int) -> Iterator[Callers]:
    """Callers that run until the block ends."""
    callers = Callers(principals, number)
    callers.start()
    try:
        yield callers
    finally:
        callers.stop()
