"""R2R behind the gateway: the whole way of a document, and tokens that end. Each function of `CHECKS` is one check."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from world import HERE, Caller, World

from checks import check
from programs import until

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
#: Seconds until a document of a few hundred words must have been ingested.
INGEST_PATIENCE = 60
#: Seconds that an access token lives in the check of tokens.
TOKEN_LIFE = 6.0


class Session:
    """The client of the Python SDK, which checks every structured result against the `outputSchema` of its tool."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self._client = portal, client

    def run(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._portal.call(partial(getattr(self._client, method), *arguments, **options))

    def call(self, tool: str, told: list[str] | None = None, **arguments: Any) -> dict[str, Any]:
        """The structured result of a call that succeeds. `told` hears of its progress."""

        async def progress(_done: float, _total: float | None, message: str | None) -> None:
            if told is not None:
                told.append(message or "")

        heard = {} if told is None else {"progress_callback": progress}
        result = self.run("call_tool", tool, arguments, **heard)
        check(not result.is_error, f"{tool} {arguments}: {result.content}")
        return dict(result.structured_content)

    def search(self, query: str, **more: Any) -> list[dict[str, Any]]:
        return list(self.call("r2r_search", query=query, limit=3, **more)["results"])


@contextmanager
def session(world: World, project: str, folder: Path) -> Iterator[Session]:
    """A client in front of a gateway for a project."""
    with world.gateway(project, **world.r2r.entry(project, folder)) as gateway, start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(Client(gateway.url)) as client:
            check(client.protocol_version == "2026-07-28", f"the revision is {client.protocol_version}")
            yield Session(portal, client)


def documents_are_ingested_found_quoted_and_listed(world: World) -> None:
    folder = world.out / "documents"
    shutil.copytree(HERE / "documents", folder)
    with session(world, "harbour", folder) as client:
        ids = {file.name: ingested(client, file, file.name != "fire.md") for file in sorted(folder.iterdir())}
        finds(client, ids)
        answers_with_sources(client)
        lists(client, ids)
        told: list[str] = []
        file = folder / "buoys.md"
        file.write_text("# Buoys\n\n" + "The green buoys stand to starboard, the red ones to port. " * 20)
        client.call("r2r_ingest_document", told, file_path=str(file), run_async=False)
        check(told, "nobody hears of the progress of an ingest")
        unknown = client.run("call_tool", "r2r_monitor_task", {"document_id": "00000000-0000-0000-0000-000000000000"})
        check(unknown.is_error, f"a document that is not there: {unknown}")
    with session(world, "island", folder) as other:
        check(not other.search(QUESTIONS[0][0]), "another project has the documents of this one")
        check(other.call("r2r_list_documents")["total"] == 0, "another project lists the documents of this one")


def ingested(client: Session, file: Path, run_async: bool) -> str:
    """Ingests a document and follows it to its end; its id."""
    done = client.call("r2r_ingest_document", file_path=str(file), run_async=run_async, metadata={"file": file.name})
    check(done["status"] == ("pending" if run_async else "success"), f"{file.name}: {done}")
    steps: list[float] = []

    def status() -> Any:
        told = client.call("r2r_monitor_task", document_id=done["document_id"])
        steps.append(told["progress"])
        return told["ingestion_status"] if told["ingestion_status"] in ("success", "failed") else None

    check(until(f"{file.name} is ingested", status, INGEST_PATIENCE) == "success", f"{file.name}: {steps}")
    check(steps == sorted(steps) and steps[-1] == 1, f"the progress of {file.name}: {steps}")
    return str(done["document_id"])


def finds(client: Session, ids: dict[str, str]) -> None:
    """Ten questions in the usual mode; the meaning alone must do too."""
    for mode in ({}, {"search_mode": "basic"}):
        for query, name in QUESTIONS:
            results = client.search(query, **mode)
            check(results and results[0]["document_id"] == ids[name], f"{query!r} wants {name}: {results}")
    check(len(client.call("r2r_search", query=QUESTIONS[0][0], limit=1)["results"]) == 1, "the limit does not hold")
    for name, count in (("pilotage.md", True), ("none.md", False)):
        found = client.search(QUESTIONS[0][0], filters={"file": {"$eq": name}})
        check(bool(found) == count, f"with a filter for {name}: {found}")


def answers_with_sources(client: Session) -> None:
    told: list[str] = []
    question = {"question": "How much does a ticket for the ferry cost?"}
    done = client.call("r2r_rag_query", told, **question)
    check("four crowns" in done["answer"], f"the answer is {done}")
    check(told, "nobody hears of an answer while it is made")
    sources = done["sources"]
    check(sources and "ferry" in sources[0]["document"], f"the first source is wrong: {sources}")
    check(all(one["text"] and one["document"] and one["score"] is not None for one in sources), f"sources: {sources}")
    bare = client.call("r2r_rag_query", **question, include_sources=False)
    check(not bare.get("sources") and bare["model_used"], f"without sources and progress: {bare}")


def lists(client: Session, ids: dict[str, str]) -> None:
    listed = client.call("r2r_list_documents")
    found = {one["title"].rpartition("/")[2]: one["document_id"] for one in listed["documents"]}
    check(found == ids and listed["total"] == 5, f"the documents are {listed}")
    check(all(one["size_bytes"] > 500 for one in listed["documents"]), f"the sizes are {listed}")
    check(len(client.call("r2r_list_documents", offset=3, limit=3)["documents"]) == 2, "the last page has not two")
    for status, count in (("success", 5), ("failed", 0), ("pending", 0)):
        some = client.call("r2r_list_documents", status_filter=status)["documents"]
        check(len(some) == count, f"{len(some)} documents are {status}")
    names = [one["name"] for one in client.call("r2r_list_collections", limit=100)["collections"]]
    check("claude-code-harbour" in names, f"the collections are {names}")
    contents = client.run("read_resource", "r2r://current-project/context").contents
    context = json.loads(contents[0].text)
    check((context["project_name"], context["document_count"]) == ("harbour", 5), f"the context is {context}")


def no_call_fails_over_four_lives_of_a_token(world: World) -> None:
    world.r2r.up(ACCESS_MINUTES=str(TOKEN_LIFE / 60))
    entry = world.r2r.entry("tokens", world.out, cache_ttl={"search": 0})
    with world.gateway("tokens", **entry) as gateway:
        caller, made = Caller(gateway.base), 0
        before, end = world.r2r.log.stat().st_size, time.monotonic() + 4 * TOKEN_LIFE
        while time.monotonic() < end:
            asked = {"tool": "r2r_search", "arguments": {"query": f"Which crane lifts {made} tonnes?", "limit": 3}}
            done = caller.ask("POST", "/api/v1/mcp/call", asked)
            check(done.status == 200 and done.body["success"], f"after {made} calls: {done}")
            made += 1
            time.sleep(0.2)
    log = world.r2r.log.read_bytes()[before:].decode(errors="replace")
    renewals = sum(log.count(f'"POST /v3/users/{request}') for request in ("refresh-token", "login"))
    # Early refreshes shorten a life, and the end of the run cuts one.
    check(2 <= renewals <= 10, f"{renewals} renewals in four lives")


CHECKS = (documents_are_ingested_found_quoted_and_listed, no_call_fails_over_four_lives_of_a_token)
