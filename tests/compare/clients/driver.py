"""Performs the steps of `actions.py` with one Python client and prints what came of each as JSON.

`peer-python python_sdk.py steps.json`, where the file is `{target, steps, mode}`. The two clients bring a class with
their names for each request; everything else is here. The TypeScript twin is driver.mjs: a verb that changes here
changes there. The driver judges nothing: run.py compares what two runs printed.
"""

import asyncio
import json
import sys
import time
import warnings
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from anyio import BrokenResourceError
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

# The SDK marks much of the legacy era as deprecated.
warnings.simplefilter("ignore")

#: Seconds for one step, unless it names another number.
PATIENCE = 60

Json = dict[str, Any]


def plain(model: Any) -> Any:
    """A model of the SDK as the JSON that it stands for."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(model, "model_dump") else model


class Peer:
    """What a connection holds beside its client: what it was asked, what it was told, and its roots."""

    def __init__(self) -> None:
        self.client: Any = None
        self.notices: list[Json] = []
        self.asked: list[Json] = []
        self.read: dict[str, int] = {}
        self.roots: list[Json] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def on_message(self, message: Any) -> None:
        if not isinstance(message, Exception):
            found = plain(message)
            self.notices.append({"method": found["method"], "params": found.get("params", {})})

    async def elicit(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append({"method": "elicitation/create", "params": plain(params)})
        content = None if plain(params).get("mode") == "url" else {"name": "Ada", "check": True, "value": "Ada"}
        return ElicitResult(action="accept", content=content)

    async def sample(self, _context: Any, params: Any) -> CreateMessageResult:
        self.asked.append({"method": "sampling/createMessage", "params": plain(params)})
        text = TextContent(type="text", text="something")
        return CreateMessageResult(model="fixed-model", role="assistant", content=text)

    async def list_roots(self, _context: Any) -> ListRootsResult:
        self.asked.append({"method": "roots/list", "params": {}})
        return ListRootsResult(roots=[Root(**root) for root in self.roots])


async def connect(peer: Peer, step: Json, stack: AsyncExitStack, ask: Json, kind: Any) -> Json:
    peer.roots = step.get("roots", [])
    peer.client = kind(ask["target"], ask["mode"], peer)
    await stack.enter_async_context(peer.client.inner)
    facts: Json = peer.client.facts()
    if modern(peer):
        lists = dict.fromkeys(("tools_list_changed", "prompts_list_changed", "resources_list_changed"), True)
        facts["listening"] = await settled(start_listening(peer, "lists", **lists))
    return facts


def modern(peer: Peer) -> bool:
    return str(peer.client.inner.protocol_version) >= "2026"


async def start_listening(peer: Peer, name: str, **wanted: Any) -> None:
    """What a client of the modern era does in place of subscribing; `on_message` hears what comes."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stay() -> None:
        try:
            async with listen(peer.client.inner.session, **wanted) as events:
                ready.set_result(None)
                async for _ in events:
                    pass
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)

    peer.tasks[name] = asyncio.create_task(stay())
    await ready


async def subscribe(peer: Peer, step: Json) -> Any:
    if not modern(peer):
        return await peer.client.subscribe(step["uri"])
    return await start_listening(peer, step["uri"], resource_subscriptions=[step["uri"]])


async def unsubscribe(peer: Peer, step: Json) -> Any:
    if not modern(peer):
        return await peer.client.unsubscribe(step["uri"])
    return peer.tasks.pop(step["uri"]).cancel() and None


async def roots(peer: Peer, step: Json) -> None:
    peer.roots = step["roots"]
    await peer.client.roots_changed()


async def pause(_peer: Peer, step: Json) -> None:
    await asyncio.sleep(step["seconds"])


async def call(peer: Peer, step: Json) -> Json:
    """Calls until the result has the text `until`, or once."""
    end = time.monotonic() + step.get("within", 0)
    while True:
        outcome = await call_once(peer, step)
        if step.get("until", "") in json.dumps(outcome) or time.monotonic() > end:
            return outcome
        await asyncio.sleep(0.1)


async def call_once(peer: Peer, step: Json) -> Json:
    progress: list[Json] = []
    before = len(peer.asked)
    enough = asyncio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append({"progress": done, "total": total, "message": message})
        if len(progress) == step.get("cancel"):
            enough.set()

    wanted = on_progress if step.get("progress") or step.get("cancel") else None
    running = asyncio.ensure_future(peer.client.call(step["name"], step.get("arguments") or {}, wanted))
    if step.get("cancel"):
        await asyncio.wait([running, asyncio.ensure_future(enough.wait())], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
    outcome = await settled(running)
    asked = [one for one in peer.asked[before:] if one["method"] != "roots/list"]
    # How many notices pass before a cancellation arrives is a matter of time.
    return outcome | ({"progress": progress} if step.get("progress") else {}) | ({"asked": asked} if asked else {})


async def heard(peer: Peer, step: Json) -> list[Json]:
    """Notices of one method since this was asked last: waits for `count` of them, or a whole `within` when 0."""

    start, count = peer.read.get(step["method"], 0), step.get("count", 1)

    def found() -> list[Json]:
        told = [one["params"] for one in peer.notices[start:] if one["method"] == step["method"]]
        return [one for one in told if not any(text in json.dumps(one) for text in step.get("without", ()))]

    end = time.monotonic() + step["within"]
    while time.monotonic() < end and not 0 < count <= len(found()):
        await asyncio.sleep(0.05)
    if count:
        await asyncio.sleep(0.2)
    told = found()
    peer.read[step["method"]] = len(peer.notices)
    return told


async def settled(running: Awaitable[Any]) -> Json:
    try:
        found = await running
        return {"result": plain(found) if found is not None else {}}
    except asyncio.CancelledError:
        if not isinstance(running, asyncio.Task):
            raise
        return {"error": {"thrown": "cancelled"}}
    except MCPError as error:
        return {"error": plain(error.error)}
    except Exception as error:
        return {"error": {"thrown": f"{type(error).__name__}: {error}"}}


#: The verbs that are the same for both clients; all others are methods of the client.
VERBS = {
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "roots": roots,
    "pause": pause,
    "call": call,
    "heard": heard,
}


async def perform(peer: Peer, step: Json, stack: AsyncExitStack, ask: Json, kind: Any) -> Json:
    verb = step["do"]
    if verb == "connect":
        running = connect(peer, step, stack, ask, kind)
    elif verb in VERBS:
        running = VERBS[verb](peer, step)
    else:
        running = getattr(peer.client, verb)(step)
    patience = step.get("patience", PATIENCE)
    try:
        # Not `wait_for`: a client must be entered in the task that leaves it.
        async with asyncio.timeout(patience):
            outcome = await settled(running)
    except TimeoutError:
        return {"error": {"thrown": f"no end within {patience} s"}}
    # A call says by itself what came of it.
    found: Json = outcome["result"] if verb == "call" and "result" in outcome else outcome
    return found


async def main(kind: Any) -> None:
    """Does all steps and prints `[[item, outcome], …]`."""
    ask = json.loads(Path(sys.argv[1]).read_text())
    is_printed = False
    try:
        async with AsyncExitStack() as stack:
            peers, done = await steps(ask, stack, kind)
            print(json.dumps(done), flush=True)
            is_printed = True
            for peer in peers.values():
                for task in peer.tasks.values():
                    task.cancel()
    except* BrokenResourceError:
        # The SSE reader of the Python SDK fails with it if a message arrives while the client closes.
        if not is_printed:
            raise


async def steps(ask: Json, stack: AsyncExitStack, kind: Any) -> tuple[dict[str, Peer], list[tuple[str, Json]]]:
    """Does all steps. Returns the clients that did them, and the outcome of each item."""
    peers: dict[str, Peer] = {}
    done: list[tuple[str, Json]] = []
    for step in ask["steps"]:
        peer = peers.setdefault(step.get("on", "a"), Peer())
        outcome = await perform(peer, step, stack, ask, kind)
        if step.get("item"):
            done.append((step["item"], outcome))
    for on, peer in peers.items():
        for what, found in (("notices", peer.notices), ("questions", peer.asked)):
            done.append((f"{on}: kinds of {what}", dict.fromkeys((one["method"] for one in found), "there")))
    return peers, done
