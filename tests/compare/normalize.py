"""What must differ between any two runs, replaced by a word before the comparison: pure, no files and no processes.

Nothing else may be replaced here. A difference that only Switchyard makes belongs into settled.py with its reason.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

#: A pattern in any string, what stands there afterwards, and why two runs never have the same.
PATTERNS: tuple[tuple[str, str, str], ...] = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>", "ids of sessions and elicitations"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)", "<time>", "the time of the run"),
    (r"\b\d{1,2}:\d\d:\d\d [AP]M\b", "<time>", "the time of the run, in dynamic resources"),
    (r"(127\.0\.0\.1|localhost):\d{4,5}", "<address>", "each run has a port of its own"),
    (r'"PORT": "\d+"', '"PORT": "<port>"', "each run has a port of its own, which get-env shows"),
    (r"\bUmVzb3VyY2Ug[\w+/]+=*", "<blob>", "the time of the run, in `Resource N: … created at`, in Base64"),
)

_COMPILED = tuple((re.compile(pattern), word) for pattern, word, _ in PATTERNS)

#: The server draws the level of each simulated line by lot.
_SIMULATED = re.compile(r"(Debug|Info|Notice|Warning|Error|Critical|Alert|Emergency)[- ]level[- ]message")


def normalized(value: Any, folder: str) -> Any:
    """`value` without what belongs to this run; `folder` is where the run keeps its files."""
    if isinstance(value, str):
        return _text(value, folder)
    if isinstance(value, list):
        return [normalized(one, folder) for one in value]
    if isinstance(value, Mapping):
        return _progress(_simulated({key: normalized(one, folder) for key, one in value.items()}))
    return value


def notices(told: list[Any]) -> list[Any]:
    """Notices without their number and order, both a matter of time: updates and log lines come every 5 s."""
    return [json.loads(one) for one in sorted({json.dumps(one, sort_keys=True) for one in told})]


def _text(text: str, folder: str) -> str:
    text = text.replace(folder, "<folder>")
    for pattern, word in _COMPILED:
        text = pattern.sub(word, text)
    return text


def _simulated(value: dict[str, Any]) -> dict[str, Any]:
    """A line of `toggle-simulated-logging` without the level that was drawn for it."""
    data = value.get("data")
    if isinstance(data, str) and _SIMULATED.match(data):
        return {**value, "level": "<drawn>", "data": _SIMULATED.sub("<drawn> message", data)}
    return value


def _progress(value: dict[str, Any]) -> dict[str, Any]:
    """The progress of a call without the last notice: the TypeScript SDK drops it when its result is read with it."""
    if not isinstance(told := value.get("progress"), list):
        return value
    return {**value, "progress": [one for one in told if one["progress"] != one["total"]]}
