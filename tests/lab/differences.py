"""What differs between a run of something directly and one through Switchyard, and which differences are as they should be: pure,
no files and no processes.

A run is a list of `[item, outcome]`. Outcomes are compared member by member, so that one difference is one path:
`a: list Tools at once / result.tools[3]`. Lists of named definitions are compared by name, and their order as well.

A difference is settled by an entry with its reason. A `*` in a pattern stands for any text, and nothing else is special. A
pattern of pairs that no difference needs any more fails the step, as does a difference that no entry has.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

Run = Sequence[tuple[str, Any]]

#: Stands for a member or an item that is not there.
NOTHING = "nothing"

#: By what the elements of lists of definitions are told apart, where all have it.
_KEYS = ("name", "uriTemplate", "uri")


@dataclass(frozen=True)
class Difference:
    """One place in the outcome of one item with another value than the direct run has."""

    item: str
    path: str
    direct: str
    through: str

    def __str__(self) -> str:
        return f"{self.item} / {self.path}\n      direct:  {self.direct}\n      through: {self.through}"


def differences(direct: Run, through: Run) -> list[Difference]:
    """Every place that differs, in the order of the direct run."""
    before, after = dict(direct), dict(through)
    if len(before) != len(direct):
        raise ValueError("two items have one name")
    found = []
    for item in dict.fromkeys([*before, *after]):
        for path, one, other in _places(before.get(item, NOTHING), after.get(item, NOTHING), ""):
            found.append(Difference(item, path or "outcome", _short(one), _short(other)))
    return found


def _places(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            place = f"{path}.{key}" if path else str(key)
            yield from _places(one.get(key, NOTHING), other.get(key, NOTHING), place)
    elif isinstance(one, list) and isinstance(other, list):
        yield from _elements(one, other, path)
    elif one != other or type(one) is not type(other):
        yield path, one, other


def _elements(one: list[Any], other: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    key = next((key for key in _KEYS if _named(one, key) and _named(other, key)), None)
    if key is None:
        if len(one) != len(other):
            yield f"{path}.length", len(one), len(other)
        for at, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from _places(left, right, f"{path}[{at}]")
        return
    before, after = ({element[key]: element for element in elements} for elements in (one, other))
    yield from _places(before, after, path)
    order = [name for name in before if name in after]
    if order != [name for name in after if name in before]:
        yield f"{path}.order", list(before), list(after)


def _named(elements: list[Any], key: str) -> bool:
    names = [element.get(key) if isinstance(element, Mapping) else None for element in elements]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _short(value: Any) -> str:
    text = value if value is NOTHING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"


@dataclass(frozen=True)
class Settled:
    """Places that differ for a reason, and what they have through Switchyard; all four are patterns."""

    #: What was compared, such as `server/client`.
    pairs: tuple[str, ...]
    items: tuple[str, ...]
    paths: tuple[str, ...]
    reason: str
    #: As the report prints it, so at most 300 characters.
    through: tuple[str, ...] = ("*",)
    #: Whether timing decides, so that a run without the difference is fine as well.
    racing: bool = False

    def excuses(self, one: Difference) -> bool:
        """Whether this is about that difference."""
        return _any(self.items, one.item) and _any(self.paths, one.path) and _any(self.through, one.through)


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(_compiled(pattern).fullmatch(text) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")))


def reason(pair: str, one: Difference, entries: Iterable[Settled]) -> str | None:
    """Why a difference is as it should be, if it is."""
    return next((entry.reason for entry in entries if _any(entry.pairs, pair) and entry.excuses(one)), None)


def stale(
    found: Collection[tuple[str, Difference]], ran: Collection[str], entries: Iterable[Settled]
) -> list[tuple[str, Settled]]:
    """Patterns of pairs that ran and that no difference needed, with their entries."""
    return [
        (pattern, entry)
        for entry in entries
        if not entry.racing
        for pattern in entry.pairs
        if any(_any([pattern], pair) for pair in ran)
        and not any(_any([pattern], pair) and entry.excuses(one) for pair, one in found)
    ]
