"""Chroma behind the gateway: the documentation is added and searched, changed and deleted, and Chroma is killed. What is left
in Chroma is looked at past the gateway. Each function of `CHECKS` is one check."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from handbook import DOCS, QUESTIONS
from world import Answer, Caller, World

from checks import check
from programs import until

#: Of the forty questions, those whose page must be among the first five.
ENOUGH = 32
UPDATES, KILLS = 60, 4
#: A document in three versions that can be told apart, of different lengths.
VERSIONS = [
    " ".join(f"Edition {word}, paragraph {at}: the tide tables of the harbour office for month {at}." for at in range(count))
    for word, count in (("amber", 12), ("basalt", 1), ("cobalt", 30))
]


class Client:
    """Calls tools over one connection of its own; not for several threads."""

    def __init__(self, base: str, collection: str) -> None:
        self._caller, self.collection = Caller(base, seconds=300), collection

    def ask(self, tool: str, **arguments: Any) -> Answer:
        asked = {"server": "chroma", "tool": tool, "arguments": arguments, "timeout": 300}
        return self._caller.ask("POST", "/api/v1/mcp/call", asked)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result of a call in the collection, which succeeds."""
        answer = self.ask(tool, collection=self.collection, **arguments)
        check(answer.status == 200 and answer.body["success"], f"{tool}: {str(answer)[:700]}")
        return dict(answer.body["data"])

    def search(self, query: str, count: int = 5, **more: Any) -> list[dict[str, Any]]:
        return list(self.call("search", query=query, n_results=count, **more)["results"])


@contextmanager
def collection(world: World, name: str) -> Iterator[tuple[str, Client]]:
    """The base of a gateway, and a client of a new collection. Nothing is tried again, so that a failure is seen at once."""
    options = {"embedding": world.embedding(), "max_results": 50}
    more = {"timeout": 300, "retry_attempts": 0, "circuit_breaker_threshold": 1000}
    with world.gateway(name, builtin="chroma", url=world.chroma.url, chroma=options, **more) as gateway:
        client = Client(gateway.base, name)
        client.ask("create_collection", name=name)
        yield gateway.base, client
        deleted = client.ask("delete_collection", name=name)
        check(deleted.body["data"]["deleted"], f"the collection is not deleted: {deleted}")


def marks(world: World, client: Client, document: str) -> list[dict[str, Any]]:
    """The metadata of all records of a document, those that do not count as well."""
    return list(world.chroma.records(f"mcp_{client.collection}", where={"document_id": document})["metadatas"])


def is_whole(found: list[dict[str, Any]]) -> bool:
    """Whether the records are one revision of a document, all of it."""
    places = sorted(mark["chunk_index"] for mark in found)
    return len({mark["revision"] for mark in found}) == 1 and places == list(range(found[0]["chunk_count"]))


def pages_are_found_by_questions_in_other_words(world: World) -> None:
    questions = QUESTIONS["in_other_words"]
    with collection(world, "pages") as (base, client):

        def add(page: str) -> int:
            own, sections = Client(base, client.collection), re.split(r"(?m)^(?=## )", (DOCS / f"{page}.md").read_text())
            return sum(own.call("add_document", content=one, metadata={"name": page})["chunks"] for one in sections if one)

        with ThreadPoolExecutor(4) as pool:
            chunks = sum(pool.map(add, {pages.split("|")[0] for _, pages in questions}))
        listed = client.ask("list_collections").body["data"]["collections"]
        check([one["count"] for one in listed] == [chunks], f"{chunks} chunks were added, and the list has {listed}")
        found = [{hit["metadata"]["name"] for hit in client.search(question)} for question, _ in questions]
        right = sum(bool(names & set(pages.split("|"))) for names, (_, pages) in zip(found, questions, strict=True))
        print(f"      the right page is among the first five for {right} of {len(questions)}", flush=True)
        check(right >= ENOUGH, f"{right} of {len(questions)} are right: {found}")
        only = client.search("How do I add a server?", filters={"name": {"$in": ["servers", "views"]}})
        check(only and {hit["metadata"]["name"] for hit in only} <= {"servers", "views"}, f"a filter does not narrow: {only}")


def updates_and_deletions_leave_no_stale_chunk(world: World) -> None:
    with collection(world, "changes") as (_, client):
        texts = (f"Document {at}. {VERSIONS[at % 3]}" for at in range(20))
        ids = [client.call("add_document", content=text)["document_id"] for text in texts]
        for at, document in enumerate(ids):
            done = client.call("update_document", doc_id=document, content=VERSIONS[(at + 1) % 3])
            left = marks(world, client, document)
            check(is_whole(left) and len(left) == done["chunks"], f"after {done} there are {left}")
        before = world.chroma.count("mcp_changes")
        gone = sum(client.call("delete_document", doc_id=document)["deleted"] for document in ids[:10])
        check(not any(marks(world, client, document) for document in ids[:10]), "chunks of deleted documents are there")
        check(world.chroma.count("mcp_changes") == before - gone, "something else is gone")
        again = client.ask("delete_document", collection="changes", doc_id=ids[0])
        check("not_found" in str(again.body), f"a document that is gone is deleted: {again}")


def searches_during_updates_find_one_whole_version(world: World) -> None:
    with collection(world, "updates") as (base, client):
        document = client.call("add_document", content=VERSIONS[0], chunk_size=150)["document_id"]
        words, lengths = ["amber", "basalt", "cobalt"], {}
        for word, text in zip(words, VERSIONS, strict=True):
            lengths[word] = client.call("update_document", doc_id=document, content=text)["chunks"]
        over = threading.Event()

        def look(_: int) -> int:
            own, count = Client(base, client.collection), 0
            while not over.is_set():
                texts = [hit["content"] for hit in own.search("tide tables", 50, filters={"document_id": document})]
                kinds = {word for word in words if any(word in text for text in texts)}
                # A chunk may be cut behind the word; the number of chunks tells the rest.
                check(len(kinds) == 1 and len(texts) == lengths[next(iter(kinds))], f"{len(texts)} chunks of {kinds}")
                count += 1
            return count

        with ThreadPoolExecutor(3) as pool:
            readers = pool.map(look, range(3))
            try:
                for at in range(UPDATES):
                    client.call("update_document", doc_id=document, content=VERSIONS[at % 3])
            finally:
                over.set()
            check(sum(readers) >= UPDATES, "there were too few searches")
        check(is_whole(marks(world, client, document)), "a stale chunk is left")


def a_killed_chroma_has_nothing_of_a_document_that_failed(world: World) -> None:
    with collection(world, "kills") as (base, client):
        client.call("add_document", content=VERSIONS[0])
        for at in range(KILLS):
            lines = (f"Stock list {line}: anchors of ship {line * 7 % 90}, stored in shed {line % 37}." for line in range(2_600 + at))
            large = {"content": "\n\n".join(lines), "chunk_size": 100, "metadata": {"name": f"large-{at}"}}
            if at == 0:  # so that what is embedded is known, and the next ones are written at once
                client.call("delete_document", doc_id=client.call("add_document", **large)["document_id"])
            before, reached = world.chroma.count("mcp_kills"), 1 if at % 2 == 0 else 1_300
            with ThreadPoolExecutor(1) as pool:
                own = Client(base, client.collection)
                failed = pool.submit(own.ask, "add_document", collection="kills", **large)
                until("some of it is written", lambda: world.chroma.count("mcp_kills") >= before + reached, 120, 0.002)
                world.chroma.kill()
            world.chroma.start()
            check(failed.result().status >= 500, f"kill {at}: the call did not fail: {failed.result()}")
            shown = client.search("stock list of the shed", 10, filters={"name": f"large-{at}"})
            check(not shown, f"kill {at}: something of it is found: {shown}")
            check(client.search("tide tables"), f"kill {at}: the other document is not found")
            done = client.call("add_document", **large)
            left = marks(world, client, done["document_id"])
            check(is_whole(left) and len(left) == done["chunks"], f"kill {at}: added again, it is not whole")
            check(world.chroma.count("mcp_kills") == before + len(left), f"kill {at}: something else is left")
            client.call("delete_document", doc_id=done["document_id"])
            check(world.chroma.count("mcp_kills") == before, f"kill {at}: deleted, something is left")


CHECKS = (
    pages_are_found_by_questions_in_other_words,
    updates_and_deletions_leave_no_stale_chunk,
    searches_during_updates_find_one_whole_version,
    a_killed_chroma_has_nothing_of_a_document_that_failed,
)
