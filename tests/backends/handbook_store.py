"""The handbook with its vectors at a real Chroma (`store: chroma`): the same answers, kept over restarts and changes of the documents."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chroma_world import Chroma, Stub
from clients import Rest
from handbook import EXCLUDED, PATIENCE, QUESTIONS, ROOT, SOON, answered, ranking, registry, search
from world import Checks, Gateway, until

#: Answered questions that may be fewer or more than with vectors in memory.
NOISE = 2


class World:
    """The programs, and the gateways that are put in front of them."""

    def __init__(self, binary: Path, chroma: Chroma, stub: Stub, folder: Path) -> None:
        self.binary, self.chroma, self.stub, self.folder = binary, chroma, stub, folder

    @contextmanager
    def handbook(self, leg: str, docs: Path, collection: str = "") -> Iterator[Rest]:
        """A client of a gateway over `docs`; without a collection the vectors are in memory."""
        options: dict[str, Any] = {}
        if collection:
            options = {"store": "chroma", "chroma": {"url": self.chroma.url, "collection": collection}}
        asked = registry(self.stub.url, docs, options=options)
        log = self.folder / f"store-{leg}.log"
        with Gateway(self.binary, asked, log) as gateway, Rest(gateway.port, server="handbook") as client:
            yield client


def kept_at_chroma(binary: Path, chroma: Chroma, stub: Stub, folder: Path) -> Checks:
    """All of it; what comes later needs what came before."""
    check, world = Checks("handbook"), World(binary, chroma, stub, folder)
    docs = folder / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns(*EXCLUDED))
    same_answers(check, world, docs)
    restart(check, world, docs)
    changes(check, world, docs)
    return check


def ready(client: Rest, seconds: float = PATIENCE) -> None:
    until("searched by meaning", seconds, lambda: ranking(client, "hybrid"), 0.2)


def questions(check: Checks, client: Rest) -> dict[str, tuple[int, int]]:
    """What is answered by the right page, and how long a search takes."""
    kinds = json.loads(QUESTIONS.read_text())
    found = {kind: answered(check, client, kind, asked) for kind, asked in kinds.items()}
    again = [search(client, question) for asked in kinds.values() for question, _ in asked]
    took = sorted(one.took * 1000 for one in again)
    check.note(f"a search takes {statistics.median(took):.1f} ms (p50), {took[len(took) * 95 // 100]:.1f} (p95)")
    check.that("all by meaning", all(one.ok and one.data["ranking"] == "hybrid" for one in again))
    return found


def same_answers(check: Checks, world: World, docs: Path) -> None:
    """The questions of the documentation, with both."""
    with world.handbook("memory", docs) as client:
        ready(client)
        memory = questions(check, client)
    with world.handbook("chroma", docs, "docs") as client:
        ready(client)
        at_chroma = questions(check, client)
    for kind, counts in memory.items():
        apart = max(abs(one - other) for one, other in zip(counts, at_chroma[kind], strict=True))
        check.that(f"{kind}: as with vectors in memory", apart <= NOISE, (memory, at_chroma))


def restart(check: Checks, world: World, docs: Path) -> None:
    """Nothing is embedded again but a text to know the model by, and the question."""
    before, ids = world.stub.embedded(), world.chroma.ids("docs")
    began = time.monotonic()
    with world.handbook("restarted", docs, "docs") as client:
        ready(client, SOON)
        took = time.monotonic() - began
    check.same("after a restart two texts are embedded: one to know the model by, and the question", world.stub.embedded() - before, 2)
    check.same("and the collection is as it was", world.chroma.ids("docs") == ids, True)
    check.note(f"{len(ids)} vectors; searched by meaning {took:.1f} s after the start")


def changes(check: Checks, world: World, docs: Path) -> None:
    """Documents are changed, moved and deleted while the gateway runs, then while it does not."""
    with world.handbook("changed", docs, "docs") as client:
        ready(client, SOON)
        before, made = world.chroma.ids("docs"), world.stub.embedded()
        (docs / "zebra.md").write_text("# Stripes\n\nA zebra grazes beside the harbour.\n")
        until("a new text is there", SOON, lambda: len(world.chroma.ids("docs")) == len(before) + 1, 0.2)
        found = search(client, "striped animal eating grass near the port")
        hits = [hit["metadata"]["path"] for hit in found.data.get("hits", [])]
        check.that("a new document is found by its meaning", "zebra" in hits[:3], hits)
        check.same("one text and one question are embedded", world.stub.embedded() - made, 2)
        (docs / "sub").mkdir()
        (docs / "naming.md").rename(docs / "sub" / "naming.md")
        (docs / "zebra.md").unlink()
        (docs / "r2r.md").unlink()
        until("old texts are gone", SOON, lambda: len(world.chroma.ids("docs")) < len(before), 0.2)
        ready(client, SOON)
    (docs / "security.md").unlink()
    with world.handbook("changed-meanwhile", docs, "docs") as client:
        ready(client, SOON)
        with world.handbook("fresh", docs, "fresh") as other:
            ready(other)
        wanted = world.chroma.ids("fresh")
        until("what is stale is deleted", SOON, lambda: world.chroma.ids("docs") == wanted, 0.2)
    check.that("the collection is what a new one would be", world.chroma.ids("docs") == wanted, len(wanted))
