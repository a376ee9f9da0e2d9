"""The handbook with real vectors: what it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients import Outcome, Rest
from world import HERE, Checks, Gateway, until

ROOT = HERE.parent.parent
QUESTIONS = ROOT / "crates/builtins/src/handbook/questions.json"
MODEL = "all-MiniLM-L6-v2"
#: Folders of the documentation that the repository's configuration file excludes.
EXCLUDED = ("contributing", "clients")
#: Seconds that vectors of the documentation may take, and those of a few documents.
PATIENCE, SOON = 300, 60
#: In hundredths: answered by the right page first, and among the first three.
WANTED = {"in_their_words": (90, 100), "in_other_words": (40, 70), "of_users": (80, 90)}


def meaning(binary: Path, stub: str, folder: Path) -> Checks:
    """Everything about search by meaning; `stub` is the URL of the embedding service."""
    check = Checks("handbook")
    asked = registry(stub, ROOT / "docs", options={"exclude": list(EXCLUDED)})
    with Gateway(binary, asked, folder / "handbook.log") as gateway:
        with Rest(gateway.port, server="handbook") as client:
            until("searched by meaning", PATIENCE, lambda: ranking(client, "hybrid"), 0.5)
            for kind, questions in json.loads(QUESTIONS.read_text()).items():
                answered(check, client, kind, questions)
    return check


def registry(stub: str, docs: Path, options: Any = None) -> dict[str, Any]:
    """A registry with a handbook alone; `options` are added to its own."""
    embedding = {"provider": "openai", "url": stub, "model": MODEL}
    options = {"path": str(docs), "cache_size": 0, "embedding": embedding, **(options or {})}
    server = {"transport": "builtin", "builtin": "handbook", "handbook": options}
    return {"mcp_servers": {"handbook": server}}


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
