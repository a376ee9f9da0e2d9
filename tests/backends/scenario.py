"""The whole way of a document, through one kind of client: taken in, followed, found, quoted, listed.

Five documents of a small harbour in `documents/`; each leg has its own copy and its own project, so that a leg
that sees another's documents fails.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Protocol

from clients import Outcome
from world import HERE, Checks, until

#: What each document is found by; none of the words that matter stand in it that way.
QUESTIONS = [
    ("How deep is the river entrance when the tide is out?", "pilotage.md"),
    ("When is the channel shut because of poor visibility?", "pilotage.md"),
    ("How much weight can the biggest hoist carry?", "cranes.md"),
    ("When must a damaged steel cable be exchanged?", "cranes.md"),
    ("What happens if I settle my bill too late?", "fees.md"),
    ("How much money do winter boats have to leave as a security?", "fees.md"),
    ("Where are broken lithium accumulators put?", "fire.md"),
    ("Who do I ring when something burns?", "fire.md"),
    ("May I bring my dog on the boat to the island?", "ferry.md"),
    ("I left my umbrella on board, where can I get it back?", "ferry.md"),
]
TOOLS = {
    "r2r_search": True,
    "r2r_rag_query": True,
    "r2r_ingest_document": False,
    "r2r_ingest_folder": False,
    "r2r_list_documents": True,
    "r2r_monitor_task": True,
    "r2r_list_collections": True,
}
#: Seconds until a document of a few hundred words must have been taken in.
INGEST_PATIENCE = 60


class Way(Protocol):
    """How tools are called."""

    name: str

    def call(self, tool: str, arguments: dict[str, Any], timeout: float | None = None) -> Outcome: ...
    def tools(self) -> list[dict[str, Any]]: ...


class Scenario:
    """One leg. `folder/documents` is the root that may be read from."""

    def __init__(self, way: Way, leg: str, folder: Path) -> None:
        self.way, self.leg, self.folder = way, leg, folder
        self.project = f"backends-{leg}"
        self.check = Checks(leg)
        self.collection = ""
        self.ids: dict[str, str] = {}

    def run(self) -> Checks:
        """All of it; what comes later needs what came before."""
        self.tools()
        for file in sorted((HERE / "documents").glob("*.md")):
            self.ingest(file, run_async=file.name != "fire.md")
        if all(self.ids.values()):
            self.find()
            self.cache()
            self.rag()
            self.lists()
            self.refusals()
            self.news()
        return self.check

    def tools(self) -> None:
        """The six, as they are promised."""
        found = {tool["name"]: tool for tool in self.way.tools()}
        self.check.same("the tools are the six of R2R", sorted(found), sorted(TOOLS))
        for name, is_read_only in TOOLS.items():
            tool = found.get(name, {})
            hints = tool.get("annotations", {})
            self.check.same(f"{name} says whether it only reads", hints.get("readOnlyHint", False), is_read_only)
            self.check.that(f"{name} has an outputSchema", tool.get("outputSchema", {}).get("properties"), tool)

    def copy(self, file: Path) -> Path:
        """A file of this leg alone."""
        place = self.folder / "documents" / self.leg / file.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        return place

    def ingest(self, file: Path, *, run_async: bool) -> None:
        """Takes a document in and follows it to its end."""
        arguments = {"file_path": str(self.copy(file)), "run_async": run_async, "metadata": {"leg": self.leg}}
        done = self.way.call("r2r_ingest_document", arguments)
        status = "pending" if run_async else "success"
        self.check.that(f"{file.name} is taken in: {status}", done.data.get("status") == status, done)
        self.check.same(f"{file.name} is called so", done.data.get("file_name", "").rpartition("/")[2], file.name)
        self.collection = self.collection or done.data.get("collection_id", "")
        self.check.same(f"{file.name} is in the project's collection", done.data.get("collection_id"), self.collection)
        self.ids[file.name] = done.data.get("document_id", "")
        if done.ok:
            self.follow(file.name)

    def follow(self, name: str) -> None:
        """Asks how far a document is until it has arrived."""
        steps: list[float] = []
        told: list[Outcome] = []

        def arrived() -> bool:
            told.append(self.way.call("r2r_monitor_task", {"document_id": self.ids[name]}))
            steps.append(told[-1].data.get("progress", -1))
            return told[-1].data.get("ingestion_status") in ("success", "failed")

        began = time.monotonic()
        until(f"{name} arrives", INGEST_PATIENCE, arrived)
        took, found = time.monotonic() - began, told[-1]
        unknown = [str(one) for one in told if not one.ok]
        self.check.same(f"{name} can be followed from the beginning", unknown[:1], [])
        self.check.that(f"{name} is followed to success", found.data.get("ingestion_status") == "success", found)
        self.check.that(f"{name}: progress only grows, to 1", steps == sorted(steps) and steps[-1] == 1, steps)
        self.check.that(f"{name} has its title", name in found.data.get("title", ""), found)
        self.check.note(f"{name}: {took:.1f} s to success, progress {sorted(set(steps))}")

    def search(self, query: str, **more: Any) -> Outcome:
        return self.way.call("r2r_search", {"query": query, "limit": 3, **more})

    def find(self) -> None:
        """Ten questions in the usual mode; the meaning alone must do too."""
        for mode in ({}, {"search_mode": "basic"}):
            right, foreign, shown = 0, 0, []
            for query, name in QUESTIONS:
                done = self.search(query, **mode)
                results = done.data.get("results", [])
                is_right = bool(results) and results[0].get("document_id") == self.ids[name]
                right += is_right
                foreign += sum(one.get("document_id") not in self.ids.values() for one in results)
                if not is_right:
                    shown.append(f"{query!r} wants {name}: {done}")
            said = mode.get("search_mode", "as is")
            self.check.that(f"search ({said}): the right document is first for {right} of 10", right == 10, shown)
            self.check.same(f"search ({said}): nothing of another project", foreign, 0)
        few = self.search(QUESTIONS[0][0], limit=1)
        self.check.that("search: the limit holds", few.data.get("count") == 1 == len(few.data["results"]), few)
        none = self.search(QUESTIONS[0][0], filters={"leg": {"$eq": "nobody"}})
        self.check.that("search: the caller's filter holds", none.ok and none.data.get("count") == 0, none)
        own = self.search(QUESTIONS[0][0], filters={"leg": {"$eq": self.leg}})
        self.check.that("search: the caller's filter lets through", own.ok and own.data.get("count", 0) > 0, own)

    def cache(self) -> None:
        """The same again is not asked again; what differs is."""
        first = self.search("Which vessels pay no berth fee?")
        again = self.search("Which vessels pay no berth fee?")
        other = self.search("Which vessels pay no berth fee?", limit=2)
        self.check.that("a first search is not cached", first.data.get("cached") is False, first)
        self.check.that("the same search again is cached", again.data.get("cached") is True, again)
        self.check.same("with the same results", again.data.get("results"), first.data.get("results"))
        self.check.that("with another limit it is not", other.data.get("cached") is False, other)
        self.check.note(f"search took {first.took * 1000:.0f} ms, cached {again.took * 1000:.1f} ms")

    def rag(self) -> None:
        """An answer with its sources."""
        question = {"question": "How much does a ticket for the ferry cost?"}
        done = self.way.call("r2r_rag_query", question)
        sources = done.data.get("sources") or []
        self.check.that("RAG answers", "four crowns" in done.data.get("answer", ""), done)
        self.check.that("RAG names its sources", sources and all(_is_source(one) for one in sources), done)
        self.check.that("the first source is the right one", sources and "ferry" in sources[0]["document"], sources[:1])
        self.check.that("RAG names the model that answered", done.data.get("model_used"), done)
        self.check.that("a first answer is not cached", done.data.get("cached") is False, done)
        again = self.way.call("r2r_rag_query", question)
        self.check.that("the same question again is", again.data.get("cached") is True, again)
        bare = self.way.call("r2r_rag_query", {**question, "include_sources": False})
        self.check.that("without sources there are none", bare.ok and not bare.data.get("sources"), bare)

    def lists(self) -> None:
        """What there is."""
        done = self.way.call("r2r_list_documents", {})
        documents = done.data.get("documents", [])
        names = sorted(one["title"].rpartition("/")[2] for one in documents)
        self.check.same("the five documents are listed", names, sorted(self.ids))
        self.check.same("with their ids", {one["document_id"] for one in documents}, set(self.ids.values()))
        self.check.that("all taken in", all(one["ingestion_status"] == "success" for one in documents), documents)
        self.check.that("with their sizes", all(one["size_bytes"] > 500 for one in documents), documents)
        self.check.same("and counted", done.data.get("total"), 5)
        page = self.way.call("r2r_list_documents", {"offset": 3, "limit": 3})
        self.check.same("the last page has two", len(page.data.get("documents", [])), 2)
        for status, count in (("success", 5), ("failed", 0), ("pending", 0)):
            some = self.way.call("r2r_list_documents", {"status_filter": status})
            self.check.that(f"{count} are {status}", some.ok and len(some.data["documents"]) == count, some)
        done = self.way.call("r2r_list_collections", {"limit": 100})
        own = [one for one in done.data.get("collections", []) if one["collection_id"] == self.collection]
        names = [one["name"] for one in own]
        self.check.same("the project's collection is listed", names, [f"claude-code-{self.project}"])
        self.check.that("collections are counted", done.data.get("total", 0) >= len(own) > 0, done)

    def refusals(self) -> None:
        """What is wrong is said, and nothing outside is read."""
        done = self.search("x", limit=0)
        said = f"{done.data} {done.text}"
        self.check.that("a limit of 0 is refused by name", not done.ok and "limit" in said and "100" in said, done)
        done = self.search("")
        self.check.that("an empty query is refused", not done.ok and "query" in f"{done.data} {done.text}", done)
        outside = self.folder / "outside.md"
        outside.write_text("# Not yours\n\nThis stands outside of the root.\n")
        link = self.folder / "documents" / self.leg / "link.md"
        link.unlink(missing_ok=True)
        link.symlink_to(outside)
        dots = link.parent / "../../outside.md"
        for what, path in (("a file outside", outside), ("a link to it", link), ("a path with dots", dots)):
            done = self.way.call("r2r_ingest_document", {"file_path": str(path), "run_async": False})
            self.check.that(f"{what} is not read", not done.ok, done)
        done = self.search("This stands outside of the root.")
        leaked = [one for one in done.data.get("results", []) if "outside of the root" in one.get("text", "")]
        self.check.that("nothing of it is found", done.ok and not leaked, leaked)
        done = self.way.call("r2r_monitor_task", {"document_id": "00000000-0000-0000-0000-000000000000"})
        self.check.that("a document that is not there is no success", not done.ok, done)

    def news(self) -> None:
        """A new document: what was remembered is dropped, and the new one is found."""
        query = "Which vessels pay no berth fee?"
        self.check.that("what was asked before is still cached", self.search(query).data.get("cached") is True)
        place = self.folder / "harbour-cat.md"
        place.write_text("# The cat of the harbour office\n\nThe tomcat Admiral sleeps on the nautical charts.\n")
        self.ingest(place, run_async=False)
        after = self.search(query)
        self.check.that("after an ingest it is asked again", after.data.get("cached") is False, after)
        found = self.search("Where does the tomcat sleep?").data.get("results", [])
        is_first = found and found[0].get("document_id") == self.ids[place.name]
        self.check.that("and the new document is found", is_first, found)
        total = self.way.call("r2r_list_documents", {}).data.get("total")
        self.check.same("and listed", total, 6)


def _is_source(source: dict[str, Any]) -> bool:
    return bool(source.get("text")) and bool(source.get("document")) and isinstance(source.get("score"), (int, float))


def progress(check: Checks, client: Any, folder: Path) -> None:
    """What a client is told that asks for progress."""
    quiet = client.call("r2r_rag_query", {"question": "How much is drinking water from the quay?"})
    check.that("who asks for no progress is told none", quiet.ok and not quiet.said, quiet)
    done = client.call("r2r_rag_query", {"question": "What does electricity on the quay cost?"}, listens=True)
    check.that("an answer is told while it is made", done.said, done)
    check.that("and is whole at the end", "meter" in done.data.get("answer", "") and done.data.get("sources"), done)
    check.note(f"{len(done.said)} pieces: {done.said[:3]}")
    place = folder / "documents" / "mcp" / "buoys.md"
    place.write_text("# Buoys\n\n" + "The green buoys stand to starboard, the red ones to port. " * 20)
    done = client.call("r2r_ingest_document", {"file_path": str(place), "run_async": False}, listens=True)
    check.that("taking a document in is told too", done.ok and done.said, done)


def resources(check: Checks, client: Any, scenario: Scenario) -> None:
    """The two resources, read by an MCP client after the scenario."""
    uris = client.resources()
    for uri in ("r2r://current-project/context", "r2r://search/history"):
        check.that(f"{uri} is offered", uri in uris, uris)
    context = client.read("r2r://current-project/context")
    check.same("the context names the project", context.get("project_name"), scenario.project)
    check.same("and its collection", context.get("collection_id"), scenario.collection)
    check.same("by name", context.get("collection_name"), f"claude-code-{scenario.project}")
    check.same("and counts its documents", context.get("document_count"), 6)
    status = context.get("ingestion_status", {})
    counts = [status.get(name) for name in ("pending", "success", "failed")]
    check.same("by what became of them: pending, success, failed", counts, [0, 6, 0])
    history = client.read("r2r://search/history")
    said = str(history)
    check.that("the history has the last query", "Where does the tomcat sleep?" in said, said[:700])
    check.that("and not the first of all", QUESTIONS[0][0] not in said, said[:700])
