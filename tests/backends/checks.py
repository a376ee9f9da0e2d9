"""What is checked, line by line: a check prints what it found, and a group ends with whether all of it was right."""

from __future__ import annotations

from typing import Any


class Checks:
    """The checks of one group."""

    def __init__(self, group: str) -> None:
        self.group, self.made, self.failed = group, 0, 0

    def that(self, what: str, is_so: Any, found: Any = "") -> bool:
        """Counts a check; `found` is shown when it failed."""
        self.made += 1
        self.failed += not is_so
        line = f"{'ok  ' if is_so else 'FAIL'}  {self.group}: {what}"
        print(line if is_so else f"{line}\n        found: {found}", flush=True)
        return bool(is_so)

    def same(self, what: str, found: Any, wanted: Any) -> bool:
        """Counts a check that two values are equal."""
        return self.that(what, found == wanted, f"{found!r}, wanted {wanted!r}")

    def note(self, what: str) -> None:
        """Says a figure that is no check."""
        print(f"      {self.group}: {what}", flush=True)
