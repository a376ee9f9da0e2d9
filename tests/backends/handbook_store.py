"""The handbook with its vectors at a real Chroma (`store: chroma`): the same answers, kept over restarts and outages."""

from __future__ import annotations

import json
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chroma_world import Chroma, Stub
from clients import Outcome, Rest
from handbook import EXCLUDED, PATIENCE, QUESTIONS, ROOT, SOON, answered, ranking, registry, search
from world import Checks, Gateway, until

#: Answered questions that may be fewer or more than with vectors in memory.
NOISE = 2
#: Seconds of searching, and those at which Chroma is killed and started again.
SEARCHING, KILLED, STARTED = 30, 4, 10
SEARCHERS = 4


class World:
    """The programs, and the gateways that are put in front of them."""

    def __init__(self, binary: Path, chroma: Chroma, stub: Stub, folder: Path) -> None:
        self.binary, self.chroma, self.stub, self.folder = binary, chroma, stub, folder

    @contextmanager
    def handbook(
        self, leg: str, docs: Path, collection: str = "", index_dir: Path | None = None, **more: Any
    ) -> Iterator[tuple[Gateway, Rest]]:
        """A gateway over `docs` and a client of it; without a collection the vectors are in memory."""
        options: dict[str, Any] = {}
        if collection:
            options = {"store": "chroma", "chroma": {"url": self.chroma.url, "collection": collection}}
        if index_dir:
            options["index_dir"] = str(index_dir)
        asked = registry(self.stub.url, docs, options=options, **more)
        log = self.folder / f"store-{leg}.log"
        with Gateway(self.binary, asked, log) as gateway, Rest(gateway.port, server="handbook") as client:
            yield gateway, client


def kept_at_chroma(binary: Path, chroma: Chroma, stub: Stub, folder: Path) -> Checks:
    """All of it; what comes later needs what came before."""
    check, world = Checks("handbook"), World(binary, chroma, stub, folder)
    docs = folder / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns(*EXCLUDED))
    same_answers(check, world, docs)
    on_disk(check, world, docs)
    restart(check, world, docs)
    changes(check, world, docs)
    outage(check, world, docs)
    deleted(check, world, docs)
    foreign(check, world, docs)
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
    with world.handbook("memory", docs) as (_, client):
        ready(client)
        memory = questions(check, client)
    with world.handbook("chroma", docs, "docs") as (_, client):
        ready(client)
        at_chroma = questions(check, client)
    for kind, counts in memory.items():
        apart = max(abs(one - other) for one, other in zip(counts, at_chroma[kind], strict=True))
        check.that(f"{kind}: as with vectors in memory", apart <= NOISE, (memory, at_chroma))


def on_disk(check: Checks, world: World, docs: Path) -> None:
    """Vectors in a folder, without Chroma: a second start reads them, a damaged file is made again."""
    folder = world.folder / "index"
    question = "striped animal eating grass near the port"
    made: list[int] = []
    found: list[Any] = []
    for leg in ("kept", "taken-up", "damaged"):
        before, began = world.stub.embedded(), time.monotonic()
        with world.handbook(leg, docs, index_dir=folder) as (_, client):
            ready(client)
            check.note(f"{leg}: searched by meaning {time.monotonic() - began:.1f} s after the start")
            found.append([hit["metadata"]["path"] for hit in search(client, question).data["hits"]])
        made.append(world.stub.embedded() - before)
        if leg == "taken-up":
            vectors = bytearray((folder / "handbook.vectors").read_bytes())
            vectors[len(vectors) // 2] ^= 1
            (folder / "handbook.vectors").write_bytes(vectors)
    check.same("over kept vectors three texts are embedded: one to know the model by, and two questions", made[1], 3)
    check.same("over damaged ones all of them", made[2], made[0])
    check.that("and the answers are the same", found[0] == found[1] == found[2], found)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}
    check.same("the files are their owner's alone", set(modes.values()), {"0o600"})


def restart(check: Checks, world: World, docs: Path) -> None:
    """Nothing is embedded again but a text to know the model by, and the question."""
    before, ids = world.stub.embedded(), world.chroma.ids("docs")
    began = time.monotonic()
    with world.handbook("restarted", docs, "docs") as (_, client):
        ready(client, SOON)
        took = time.monotonic() - began
    check.same("after a restart two texts are embedded: one to know the model by, and the question", world.stub.embedded() - before, 2)
    check.same("and the collection is as it was", world.chroma.ids("docs") == ids, True)
    check.note(f"{len(ids)} vectors; searched by meaning {took:.1f} s after the start")


def changes(check: Checks, world: World, docs: Path) -> None:
    """Documents are changed, moved and deleted while the gateway runs, then while it does not."""
    with world.handbook("changed", docs, "docs") as (_, client):
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
    with world.handbook("changed-meanwhile", docs, "docs") as (_, client):
        ready(client, SOON)
        with world.handbook("fresh", docs, "fresh") as (_, other):
            ready(other)
        wanted = world.chroma.ids("fresh")
        until("what is stale is deleted", SOON, lambda: world.chroma.ids("docs") == wanted, 0.2)
    check.that("the collection is what a new one would be", world.chroma.ids("docs") == wanted, len(wanted))


def outage(check: Checks, world: World, docs: Path) -> None:
    """Chroma is killed under searches and started again."""
    made: list[tuple[float, Outcome]] = []
    began, over = time.monotonic(), threading.Event()

    def look(gateway: Gateway, number: int) -> None:
        with Rest(gateway.port, server="handbook") as own:
            turn = 0
            while not over.is_set():
                turn += 1
                made.append((time.monotonic() - began, search(own, f"what happens when server {number}{turn} is down")))

    with world.handbook("outage", docs, "docs") as (gateway, client):
        ready(client, SOON)
        began = time.monotonic()
        callers = [threading.Thread(target=look, args=(gateway, number)) for number in range(SEARCHERS)]
        for caller in callers:
            caller.start()
        time.sleep(KILLED)
        world.chroma.kill()
        time.sleep(STARTED - KILLED)
        world.chroma.start()
        time.sleep(max(0.0, SEARCHING - (time.monotonic() - began)))
        over.set()
        for caller in callers:
            caller.join()
        failed = [str(one) for _, one in made if not one.ok]
        check.same(f"of {len(made)} searches while Chroma was killed none failed", failed[:3], [])
        kinds = [(at, one.data.get("ranking")) for at, one in made if one.ok]
        check.that("by words meanwhile", any(kind == "lexical" for at, kind in kinds if KILLED < at < STARTED))
        check.that("by meaning at the end", all(kind == "hybrid" for at, kind in kinds if at > SEARCHING - 3), kinds[-5:])
        check.note(f"the slowest took {max(one.took for _, one in made):.2f} s")
        said = [line for line in gateway.log.read_text().splitlines() if '"WARN"' in line]
        check.that("the log says it once", 1 <= len(said) <= 2, said)


def deleted(check: Checks, world: World, docs: Path) -> None:
    """The collection is deleted underneath."""
    with world.handbook("deleted", docs, "docs") as (_, client):
        ready(client, SOON)
        ids = world.chroma.ids("docs")
        world.chroma.drop("docs")
        made = [search(client, f"which port is listened on {number}") for number in range(20)]
        check.that("searches go on", all(one.ok and one.data["hits"] for one in made), made[0])
        ready(client)
        check.that("it is made anew and filled again", world.chroma.ids("docs") == ids, len(ids))


def foreign(check: Checks, world: World, docs: Path) -> None:
    """A collection of another model is not touched."""
    ids = world.chroma.ids("docs")
    with world.handbook("foreign", docs, "docs", model="another-model") as (gateway, client):
        until("it is said", SOON, lambda: "nothing is written into the collection" in gateway.log.read_text(), 0.2)
        found = search(client, "which port is listened on")
        check.same("with another model words answer", found.data.get("ranking"), "lexical")
    check.that("and nothing was written", world.chroma.ids("docs") == ids)
