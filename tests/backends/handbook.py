"""The handbook with its vectors in memory and at a real Chroma (`store: chroma`): what it finds, and what is kept over restarts
and changes of the documents. Each function of `CHECKS` is one check."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from world import HERE, Caller, World

from checks import check
from programs import until

ROOT = HERE.parent.parent
DOCS = ROOT / "docs"
QUESTIONS: dict[str, list[list[str]]] = json.loads((ROOT / "crates/builtins/src/handbook/questions.json").read_text())
#: Folders of the documentation that the repository's configuration file excludes.
EXCLUDED = ("contributing", "clients")
#: Seconds that vectors of the documentation may take.
PATIENCE = 300
#: In hundredths: answered by the right page first, and among the first three.
WANTED = {"in_their_words": (90, 100), "in_other_words": (40, 70), "of_users": (80, 90)}
#: Answered questions that may be fewer or more with vectors at Chroma.
NOISE = 2


@contextmanager
def handbook(world: World, name: str, docs: Path, collection: str = "") -> Iterator[Caller]:
    """A client of a gateway over `docs` that searches by meaning; without a collection the vectors are in memory."""
    options: dict[str, Any] = {"path": str(docs), "cache_size": 0, "embedding": world.embedding()}
    if collection:
        options |= {"store": "chroma", "chroma": {"url": world.chroma.url, "collection": collection}}
    with world.gateway(f"handbook-{name}", builtin="handbook", handbook=options) as gateway:
        caller = Caller(gateway.base)
        until("searched by meaning", lambda: is_by_meaning(caller), PATIENCE, 0.2)
        yield caller


def search(caller: Caller, query: str) -> dict[str, Any]:
    answer = caller.ask("POST", "/api/v1/mcp/call", {"tool": "search_handbook", "arguments": {"query": query}})
    return dict(answer.body.get("data") or {})


def is_by_meaning(caller: Caller) -> bool:
    return search(caller, "how is a tool called when two servers have one of its name").get("ranking") == "hybrid"


def right_pages(caller: Caller) -> dict[str, tuple[int, int]]:
    """For each kind of questions, how many were answered by the right page first, and among the first three."""
    counts = {}
    for kind, questions in QUESTIONS.items():
        places = []
        for question, pages in questions:
            found = search(caller, question)
            check(found.get("ranking") == "hybrid", f"{question!r} is not answered by meaning: {found}")
            names = [hit["metadata"]["path"].split("#")[0] for hit in found["hits"]]
            places.append(next((at for at, name in enumerate(names) if name in pages.split("|")), 99))
        counts[kind] = sum(at == 0 for at in places), sum(at < 3 for at in places)
        print(f"      {kind}: of {len(places)} {counts[kind]} first and among three", flush=True)
        first, three = (share * len(places) / 100 for share in WANTED[kind])
        check(counts[kind][0] >= first and counts[kind][1] >= three, f"{kind}: {places}")
    return counts


def the_same_pages_are_found_with_vectors_at_chroma(world: World) -> None:
    docs = world.out / "docs"
    shutil.copytree(DOCS, docs, ignore=shutil.ignore_patterns(*EXCLUDED))
    with handbook(world, "memory", docs) as caller:
        memory = right_pages(caller)
    with handbook(world, "chroma", docs, "docs") as caller:
        at_chroma = right_pages(caller)
    for kind, counts in memory.items():
        apart = max(abs(one - other) for one, other in zip(counts, at_chroma[kind], strict=True))
        check(apart <= NOISE, f"{kind}: {counts} with vectors in memory, and {at_chroma[kind]}")
    is_kept_over_a_restart(world, docs)
    follows_changes(world, docs)


def ids(world: World, collection: str = "docs") -> set[str]:
    return set(world.chroma.records(collection, include=[])["ids"])


def is_kept_over_a_restart(world: World, docs: Path) -> None:
    before, kept = world.stub.embedded(), ids(world)
    with handbook(world, "restarted", docs, "docs"):
        made = world.stub.embedded() - before
    check(made == 2, f"{made} texts were embedded; needed are one to know the model by, and the question")
    check(ids(world) == kept, "the collection has changed")


def follows_changes(world: World, docs: Path) -> None:
    """Documents are changed, moved and deleted while the gateway runs, then while it does not."""
    with handbook(world, "changed", docs, "docs") as caller:
        before, made = ids(world), world.stub.embedded()
        (docs / "zebra.md").write_text("# Stripes\n\nA zebra grazes beside the harbour.\n")
        until("a new text is there", lambda: len(ids(world)) == len(before) + 1, 60, 0.2)
        hits = [hit["metadata"]["path"] for hit in search(caller, "striped animal eating grass near the port")["hits"]]
        check("zebra" in hits[:3], f"a new document is not found by its meaning: {hits}")
        check(world.stub.embedded() - made == 2, "more than one text and one question are embedded")
        (docs / "sub").mkdir()
        (docs / "naming.md").rename(docs / "sub" / "naming.md")
        (docs / "zebra.md").unlink()
        (docs / "r2r.md").unlink()
        until("old texts are gone", lambda: len(ids(world)) < len(before), 60, 0.2)
    (docs / "security.md").unlink()
    with handbook(world, "changed-meanwhile", docs, "docs"):
        with handbook(world, "fresh", docs, "fresh"):
            wanted = ids(world, "fresh")
        until("the collection is what a new one would be", lambda: ids(world) == wanted, 60, 0.2)


CHECKS = (the_same_pages_are_found_with_vectors_at_chroma,)
