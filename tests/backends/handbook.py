"""The handbook with real vectors: what it finds, and what is left when the provider fails."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from clients import Outcome, Rest
from world import HERE, Checks, Gateway, until

ROOT = HERE.parent.parent
QUESTIONS = ROOT / "crates/builtins/src/handbook/questions.json"
MODEL, KEY = "all-MiniLM-L6-v2", "sk-canary-7f3a"
#: Folders of the documentation that the repository's configuration file excludes.
EXCLUDED = ("contributing", "clients")
#: Seconds that vectors of the documentation may take, and those of a few documents.
PATIENCE, SOON = 300, 60
#: In hundredths: answered by the right page first, and among the first three.
WANTED = {"in_their_words": (90, 100), "in_other_words": (40, 70)}


def meaning(binary: Path, stub: str, folder: Path) -> Checks:
    """Everything about search by meaning; `stub` is the URL of the embedding service."""
    check = Checks("handbook")
    asked = registry(stub, ROOT / "docs", options={"exclude": list(EXCLUDED)})
    with Gateway(binary, asked, folder / "handbook.log") as gateway:
        with Rest(gateway.port, server="handbook") as client:
            until("searched by meaning", PATIENCE, lambda: ranking(client, "hybrid"), 0.5)
            for kind, questions in json.loads(QUESTIONS.read_text()).items():
                answered(check, client, kind, questions)
        check.that("the key is in no log", KEY not in gateway.log.read_text(), gateway.log)
    few = folder / "few"
    shutil.copytree(ROOT / "docs", few, ignore=lambda _, names: [n for n in names if n not in ("naming.md", "r2r.md")])
    for fault in ("stub-status-503", "stub-status-401", "stub-garbage", "stub-short", "stub-slow-20000"):
        _without(check, binary, stub, few, fault)
    return check


def registry(stub: str, docs: Path, model: str = MODEL, options: Any = None, **changes: Any) -> dict[str, Any]:
    """A registry with a handbook alone; `options` are added to its own."""
    embedding = {"provider": "openai", "url": stub, "model": model, "api_key": KEY}
    options = {"path": str(docs), "cache_size": 0, "embedding": embedding, **(options or {})}
    server = {"transport": "builtin", "builtin": "handbook", "handbook": options}
    return {"mcp_servers": {"handbook": server}, **changes}


def search(client: Rest, query: str) -> Outcome:
    """A search, by REST."""
    return client.call("search_handbook", {"query": query})


def ranking(client: Rest, wanted: str) -> bool:
    """Whether searches are answered like that."""
    found = search(client, "how is a tool called when two servers have one of its name")
    return found.ok and found.data["ranking"] == wanted


def answered(check: Checks, client: Rest, kind: str, questions: list[tuple[str, str]]) -> tuple[int, int]:
    """How many were answered by the right page first, and among the first three."""
    places = []
    for question, pages in questions:
        hits = search(client, question).data.get("hits", [])
        found = [hit["metadata"]["path"].split("#")[0] for hit in hits]
        places.append(next((at for at, page in enumerate(found) if page in pages.split("|")), 99))
    first, three = sum(at == 0 for at in places), sum(at < 3 for at in places)
    says = f"{kind}: of {len(places)} {first} first, {three} among the first three"
    least = [share * len(places) / 100 for share in WANTED[kind]]
    check.that(says, first >= least[0] and three >= least[1], places)
    return first, three


def _without(check: Checks, binary: Path, stub: str, docs: Path, fault: str) -> None:
    """A service that fails costs meaning, and no search."""
    log = docs.parent / f"handbook-{fault}.log"
    with Gateway(binary, registry(stub, docs, fault), log) as gateway, Rest(gateway.port, server="handbook") as client:
        made = [search(client, f"tool name {number}") for number in range(20)]
        check.that(f"{fault}: words answer", all(one.ok and one.data["ranking"] == "lexical" for one in made), made[0])
        check.that(f"{fault}: at once", max(one.took for one in made[1:]) < 1, max(one.took for one in made))
        said = [line for line in log.read_text().splitlines() if '"WARN"' in line]
        check.that(f"{fault}: said once, without the key", len(said) <= 1 and KEY not in log.read_text(), said)
