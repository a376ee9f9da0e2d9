#!/usr/bin/env python3
"""Switchyard in front of a real Chroma with real embeddings: everything that is promised of them, from outside.

See README.md beside this file. Exit code: 0 all checks passed, 1 one failed or the world did not start.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chroma_corpus import KNOWN, VERSIONS, large, others
from chroma_world import Chroma, Stub, install, registry
from clients import Outcome, Rest
from handbook_store import kept_at_chroma
from world import Checks, Failed, Gateway, home, until

DOCUMENTS = 200
#: Of the thirty questions, those whose document must be among the first five.
ENOUGH = 27
UPDATES = 60
KILLS = 4


class World:
    """The programs, and the gateways that are put in front of them."""

    def __init__(self, binary: Path, chroma: Chroma, stub: Stub, folder: Path) -> None:
        self.binary, self.chroma, self.stub, self.folder = binary, chroma, stub, folder

    @contextmanager
    def gateway(self, leg: str, **options: Any) -> Iterator[Rest]:
        """A client of a gateway of its own."""
        asked = registry(self.chroma, self.stub.url, **options)
        with Gateway(self.binary, asked, self.folder / f"{leg}.log") as gateway, self.client(gateway) as client:
            until("Chroma is ready", 20, lambda: client.server()["state"] == "ready")
            self.last = gateway
            yield client

    def client(self, gateway: Gateway) -> Rest:
        return Rest(gateway.port, 300, "chroma")


def search(client: Rest, query: str, count: int = 5, **more: Any) -> Outcome:
    return client.call("search", {"collection": "town", "query": query, "n_results": count, **more})


def same_revision(marks: list[dict[str, Any]]) -> bool:
    """Whether the records are one revision of a document, all of it."""
    places = sorted(mark["chunk_index"] for mark in marks)
    is_one = len({mark["revision"] for mark in marks}) == 1
    return is_one and places == list(range(marks[0]["chunk_count"]))


def add_all(check: Checks, world: World, client: Rest) -> dict[str, str]:
    """Two hundred documents, four at a time; their ids."""
    check.that("a collection is made", client.call("create_collection", {"name": "town"}).data.get("created"))
    texts = [(name, text) for name, text, _ in KNOWN] + others(DOCUMENTS - len(KNOWN))
    began = time.monotonic()

    def add(one: tuple[str, str]) -> tuple[str, Outcome]:
        name, text = one
        with world.client(world.last) as own:
            asked = {"collection": "town", "content": text, "metadata": {"name": name}}
            return name, own.call("add_document", asked)

    with ThreadPoolExecutor(4) as pool:
        done = dict(pool.map(add, texts))
    bad = [str(one) for one in done.values() if not one.ok]
    check.same(f"{len(done)} documents are added", (len(done), bad[:2]), (DOCUMENTS, []))
    chunks = sum(one.data.get("chunks", 0) for one in done.values())
    listed = client.call("list_collections", {}).data["collections"]
    check.same("the list counts their chunks", [one["count"] for one in listed], [chunks])
    check.note(f"{len(done)} documents of {chunks} chunks in {time.monotonic() - began:.0f} s")
    return {name: one.data.get("document_id", "") for name, one in done.items()}


def questions(check: Checks, client: Rest, ids: dict[str, str]) -> None:
    first, within, missed, took = 0, 0, [], []
    for name, _, question in KNOWN:
        done = search(client, question)
        took.append(done.took)
        found = [hit["document_id"] for hit in done.data.get("results", [])]
        first += found[:1] == [ids[name]]
        within += ids[name] in found
        if ids[name] not in found:
            missed.append(question)
    check.that(f"the right document is among the first five for {within} of {len(KNOWN)}", within >= ENOUGH, missed)
    check.note(f"missed: {missed}")
    check.note(f"first for {first} of {len(KNOWN)}; a search took {sorted(took)[len(took) // 2] * 1000:.0f} ms (p50)")
    only = search(client, KNOWN[0][2], filters={"name": {"$in": ["bus-night", "bus-lost"]}})
    names = {hit["metadata"]["name"] for hit in only.data.get("results", [])}
    check.same("a filter narrows the search", names, {"bus-night", "bus-lost"})


def no_stale_chunk(check: Checks, world: World, client: Rest, ids: dict[str, str]) -> None:
    """Updates that make documents longer and shorter, then deletions."""
    collection = world.chroma.collection("mcp_town")
    names = [name for name, _ in others(20)]
    for at, name in enumerate(names):
        text = VERSIONS[at % 3]
        asked = {"collection": "town", "doc_id": ids[name], "content": text}
        done = client.call("update_document", asked)
        marks = world.chroma.marks(collection, ids[name])
        if not (done.ok and same_revision(marks) and len(marks) == done.data["chunks"]):
            check.that(f"{name}: only the new chunks are there", False, (str(done), marks))
    check.that("after 20 updates only the new chunks are there", not check.failed)
    before = world.chroma.count(collection)
    asked = [{"collection": "town", "doc_id": ids[name]} for name in names]
    gone = sum(client.call("delete_document", one).data["deleted"] for one in asked)
    left = sum(len(world.chroma.marks(collection, ids[name])) for name in names)
    check.same("after 20 deletions nothing of them is there", left, 0)
    check.same("and nothing else is gone", before - gone, world.chroma.count(collection))
    again = client.call("delete_document", {"collection": "town", "doc_id": ids[names[0]]})
    check.that("a document that is gone is not there", not again.ok and "not_found" in again.text, again)


def no_gap(check: Checks, world: World, client: Rest) -> None:
    """A document is replaced over and over while others look for it."""
    added = client.call("add_document", {"collection": "town", "content": VERSIONS[0], "chunk_size": 150})
    document, lengths = added.data["document_id"], {}
    bad: list[str] = []
    found = [0, 0]
    over = threading.Event()
    words = ["amber", "basalt", "cobalt"]
    for word, text in zip(words, VERSIONS, strict=True):
        asked = {"collection": "town", "doc_id": document, "content": text}
        lengths[word] = client.call("update_document", asked).data["chunks"]

    def look() -> None:
        with world.client(world.last) as own:
            while not over.is_set():
                done = search(own, "tide tables of the harbour office", 50, filters={"document_id": document})
                texts = [hit["content"] for hit in done.data.get("results", [])]
                kinds = {word for word in words if any(word in text for text in texts)}
                # A chunk may be cut behind the word; the number of chunks tells the rest.
                is_whole = len(kinds) == 1 and len(texts) == lengths[next(iter(kinds))]
                found[0] += 1
                if not is_whole:
                    bad.append(f"{len(texts)} of {sorted(kinds)}: {done}"[:300])

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for at in range(UPDATES):
        asked = {"collection": "town", "doc_id": document, "content": VERSIONS[at % 3]}
        found[1] += client.call("update_document", asked).ok
    over.set()
    for reader in readers:
        reader.join()
    check.same(f"{UPDATES} updates succeed under searches", found[1], UPDATES)
    check.that(f"{found[0]} searches meanwhile find one whole version each", not bad, bad[:3])
    marks = world.chroma.marks(world.chroma.collection("mcp_town"), document)
    check.that("and no stale chunk is left", same_revision(marks), len(marks))


def killed(check: Checks, world: World, client: Rest) -> None:
    """Chroma is killed while a large document is written, at different moments, and started again."""
    collection = world.chroma.collection("mcp_town")
    for at in range(KILLS):
        text = large(2_600 + at)
        asked = {"collection": "town", "content": text, "chunk_size": 100, "metadata": {"name": f"large-{at}"}}
        before = world.chroma.count(collection)
        if at == 0:  # so that what is embedded is known, and the next ones are written at once
            done = client.call("add_document", {**asked, "content": large(2_700)})
            gone = client.call("delete_document", {"collection": "town", "doc_id": done.data.get("document_id", "x")})
            check.that("a large document is added and deleted", gone.ok, (done, gone))
        outcome: list[Outcome] = []

        def add() -> None:
            with world.client(world.last) as own:
                outcome.append(own.call("add_document", asked))

        writer = threading.Thread(target=add)
        writer.start()
        reached = 1 if at % 2 == 0 else 1_300
        until("some of it is written", 120, lambda: world.chroma.count(collection) >= before + reached, 0.002)
        world.chroma.kill()
        writer.join()
        world.chroma.start()
        left = world.chroma.count(collection) - before
        mine = {"filters": {"name": f"large-{at}"}}
        shown = search(client, "stock list of the shed", 10, **mine)
        check.that(f"kill {at}: the call failed, {left} records were left", not outcome[0].ok, outcome)
        check.that("nothing of it is found", shown.ok and shown.data.get("count") == 0, shown)
        near = search(client, "stock list of the shed", 5)
        check.that("and others are", near.ok and near.data.get("count") == 5, near)
        done = client.call("add_document", asked)
        marks = world.chroma.marks(collection, done.data.get("document_id", "x"))
        is_whole = done.ok and len(marks) == done.data["chunks"] and same_revision(marks)
        check.that(f"added again it is whole: {len(marks)} chunks", is_whole, done)
        check.same("and nothing else is left", world.chroma.count(collection), before + len(marks))
        client.call("delete_document", {"collection": "town", "doc_id": done.data.get("document_id", "x")})
        check.same("deleted, nothing is", world.chroma.count(collection), before)


def run(world: World) -> Checks:
    """All of it; what comes later needs what came before."""
    check = Checks("chroma")
    with world.gateway("chroma", max_results=50) as client:
        ids = add_all(check, world, client)
        if all(ids.values()):
            questions(check, client, ids)
            no_stale_chunk(check, world, client, ids)
            no_gap(check, world, client)
            killed(check, world, client)
        deleted = client.call("delete_collection", {"name": "town"}).data.get("deleted")
        check.same("the collection is deleted", deleted, True)
    return check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    parser.add_argument("--home", type=Path, default=home(), help="where the packages are kept")
    parser.add_argument("--group", action="append", choices=("tools", "handbook"), help="only this one")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the run even when all passed")
    asked = parser.parse_args()
    # Ended from outside, what was started here is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="chroma-"))
    passed = False
    try:
        programs = install(asked.home.resolve())
        began = time.monotonic()
        with Stub(programs["STUB_PYTHON"], folder) as stub, Chroma(programs["CHROMA"], folder) as chroma:
            binary, groups = asked.binary.resolve(), asked.group or ["tools", "handbook"]
            parts = {
                "tools": lambda: run(World(binary, chroma, stub, folder)),
                "handbook": lambda: kept_at_chroma(binary, chroma, stub, folder),
            }
            checks = [parts[group]() for group in groups]
        made, failed = sum(check.made for check in checks), sum(check.failed for check in checks)
        passed = not failed
        print(f"\n{made - failed} passed, {failed} failed, {time.monotonic() - began:.0f} s")
    except Failed as error:
        print(f"chroma: {error}", file=sys.stderr)
    if passed and not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and configuration files: {folder}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
