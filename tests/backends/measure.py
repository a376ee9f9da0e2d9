#!/usr/bin/env python3
"""What Switchyard adds to a search in R2R, and what its cache takes away. A measurement, not a test.

Two figures, each with its goal:

- a search that the cache answers, at 64 connections (wrk; answers checked by status and size), at p99: 10 ms;
- what an uncached search takes longer than the same search sent to R2R, at p50: 2 ms. Pairs of calls, one
  right after the other in turn first, each query new to both; R2R's embeddings are warmed up before each pair,
  so that neither call pays for them.

It starts a real R2R as `run.py` does, prints a table and writes one JSON file. Needs wrk (Debian: wrk).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any

from clients import Rest
from scenario import QUESTIONS, Scenario
from world import HERE, Failed, Gateway, Lab, Redis, home, registry

#: Path, headers and body.
Request = tuple[str, dict[str, str], bytes]

CACHED_GOAL_MS, ADDED_GOAL_MS = 10.0, 2.0
CONNECTIONS = 64
#: What callers do between two calls, on average: half of what is possible here and less.
PAUSE_MS = 10
#: More than the head of an answer has.
HEAD_BYTES = 1000
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "measure", "version": "1"},
}


class Direct:
    """R2R itself, called as the gateway calls it."""

    def __init__(self, lab: Lab, collection: str) -> None:
        self._lab, self._collection = lab, collection
        self._wire = http.client.HTTPConnection(urllib.parse.urlsplit(lab.url).netloc, timeout=60)
        form = urllib.parse.urlencode({"username": lab.email, "password": lab.password})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        login = self._post("/v3/users/login", form.encode(), kind)
        self._bearer = login["results"]["access_token"]["token"]
        stub = urllib.parse.urlsplit(lab.stub)
        self._stub = http.client.HTTPConnection(stub.netloc, timeout=60)

    def request(self, query: str, limit: int) -> Request:
        """Path, headers and body of a search by meaning in one collection."""
        mine = {"$and": [{"collection_id": {"$eq": self._collection}}]}
        settings = {"use_semantic_search": True, "use_fulltext_search": False, "limit": limit, "filters": mine}
        body = {"query": query, "search_mode": "custom", "search_settings": settings}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._bearer}"}
        return "/v3/retrieval/search", headers, json.dumps(body).encode()

    def search(self, query: str, limit: int) -> list[str]:
        """The documents that were found."""
        path, headers, body = self.request(query, limit)
        found = self._post(path, body, headers)["results"]["chunk_search_results"]
        return [chunk["document_id"] for chunk in found]

    def warm(self, query: str) -> None:
        """Has the embedding of a query made, so that whoever comes first does not pay for it."""
        body = json.dumps({"model": "text-embedding-3-small", "input": [query]})
        self._stub.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        self._stub.getresponse().read()

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        self._wire.request("POST", path, body, headers)
        answer = self._wire.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Failed(f"R2R answers {answer.status} to {path}: {text[:300]!r}")
        result: dict[str, Any] = json.loads(text)
        return result


def added(client: Rest, direct: Direct, pairs: int) -> dict[str, float]:
    """Pairs of uncached searches, direct and through the gateway; milliseconds."""
    times: dict[str, list[float]] = {"direct": [], "gateway": []}
    dice = random.Random(5)
    for number in range(pairs + 10):
        query = f"{QUESTIONS[number % 10][0]} ({number})"
        direct.warm(query)
        found = {}
        for way in dice.sample(["direct", "gateway"], 2):
            began = time.perf_counter()
            if way == "direct":
                found[way] = direct.search(query, 10)
            else:
                answer = client.call("r2r_search", {"query": query, "search_mode": "basic"})
                if answer.data.get("cached") is not False:
                    raise Failed(f"an uncached search was wanted: {answer}")
                found[way] = [one["document_id"] for one in answer.data["results"]]
            if number >= 10:  # the first ones open connections
                times[way].append((time.perf_counter() - began) * 1e3)
        if found["direct"] != found["gateway"]:
            raise Failed(f"{query}: another answer through the gateway: {found}")
    differences = [mine - bare for mine, bare in zip(times["gateway"], times["direct"], strict=True)]
    figures = {f"{way}_{name}_ms": value for way, of in times.items() for name, value in _spread(of).items()}
    return {"pairs": pairs, **figures, **{f"added_{name}_ms": value for name, value in _spread(differences).items()}}


def _spread(values: list[float]) -> dict[str, float]:
    percent = statistics.quantiles(values, n=100)
    return {"p50": statistics.median(values), "p90": percent[89], "p99": percent[98]}


def processor_seconds(pid: int) -> float:
    """What a process used so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_answer(port: int, request: Request, must: str) -> int:
    """The size of the answer, which has the words of `must` in it."""
    path, headers, body = request
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    wire.request("POST", path, body, headers)
    answer = wire.getresponse()
    text = answer.read().decode()
    wire.close()
    if answer.status != 200 or must not in text:
        raise Failed(f"not the answer that was wanted: {answer.status} {text[:300]}")
    return len(text.encode())


def crowd(port: int, request: Request, must: str, pause: int, seconds: float, folder: Path) -> dict[str, Any]:
    """One request over and over, at 64 connections, each with a pause of so many milliseconds between its calls."""
    path, headers, body = request
    head = "".join(f"{name}: {value}\n" for name, value in headers.items())
    size = one_answer(port, request, must)
    asked, out = folder / "request", folder / "measured.json"
    asked.write_bytes(f"{path}\n{head}\n".encode() + body)
    command = ["wrk", "-t1", "--timeout", "60s", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "-s", str(HERE / "post.lua")]
    env = {**os.environ, "POST_REQUEST": str(asked), "POST_OUT": str(out), "POST_PAUSE": str(pause)}
    subprocess.run([*command, f"http://127.0.0.1:{port}"], env=env, check=True, stdout=subprocess.DEVNULL)
    measured: dict[str, Any] = json.loads(out.read_text())
    mean = measured["bytes"] / max(measured["calls"], 1)
    is_right = size < mean < size + HEAD_BYTES and one_answer(port, request, must)
    if measured["wrong"] or measured["broken"] or not is_right:
        raise Failed(f"not every answer was right: {measured}")
    return measured


def rest_request(arguments: dict[str, Any]) -> Request:
    body = {"server": "r2r", "tool": "r2r_search", "arguments": arguments}
    return "/api/v1/mcp/call", {"Content-Type": "application/json"}, json.dumps(body).encode()


def mcp_request(arguments: dict[str, Any]) -> Request:
    params = {"name": "r2r_search", "arguments": arguments, "_meta": MODERN}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "r2r_search",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return "/mcp", headers, json.dumps(body).encode()


def cached(
    gateways: dict[str, Gateway], direct: Direct, url: str, rounds: int, seconds: float, folder: Path
) -> dict[str, dict[str, float]]:
    """The same search by each way in turn; the median of the rounds."""
    query = QUESTIONS[0][0]
    asked = {"query": query, "search_mode": "basic", "limit": 10}
    r2r = urllib.parse.urlsplit(url).port or 0
    ways = {"R2R itself": (r2r, direct.request(query, 10), '"chunk_search_results"', 0)}
    pids: dict[str, int] = {}
    for name, gateway in gateways.items():
        with Rest(gateway.port) as client:
            client.call("r2r_search", asked)
        for pause, said in ((0, ""), (PAUSE_MS, f", pause {PAUSE_MS} ms")):
            ways[f"REST{said}, cached {name}"] = (gateway.port, rest_request(asked), '"cached":true', pause)
            ways[f"MCP{said}, cached {name}"] = (gateway.port, mcp_request(asked), '"cached":true', pause)
        pids |= {way: gateway.pid() for way in ways if way.endswith(name)}
    visits: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for turn in range(rounds):
        order = list(ways) if turn % 2 == 0 else list(reversed(ways))
        for way in order:
            before = processor_seconds(pids[way]) if way in pids else 0.0
            visit = crowd(*ways[way], seconds, folder)
            visit["cpu_us"] = (processor_seconds(pids[way]) - before) / visit["calls"] * 1e6 if way in pids else 0.0
            visits[way].append(visit)
    rows = {}
    for way, of in visits.items():
        figures = {
            name: statistics.median(one[name] for one in of) for name in ("p50_ms", "p99_ms", "max_ms", "cpu_us")
        }
        rows[way] = {**figures, "calls_per_second": statistics.median(one["calls"] / one["seconds"] for one in of)}
    return rows


def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything, in a world of its own."""
    with Lab(asked.home.resolve(), folder / "lab") as lab, Redis(folder / "redis") as redis:
        plain = registry(lab, "backends-measure", folder)
        shared = registry(lab, "backends-measure", folder, cache={"type": "redis", "url": redis.url})
        binary = asked.binary.resolve()
        with (
            Gateway(binary, plain, folder / "measure.log") as gateway,
            Gateway(binary, shared, folder / "measure-redis.log") as with_redis,
            Rest(gateway.port) as client,
        ):
            scenario = Scenario(client, "measure", folder)
            for file in sorted((HERE / "documents").glob("*.md")):
                done = client.call("r2r_ingest_document", {"file_path": str(scenario.copy(file)), "run_async": False})
                if not done.ok:
                    raise Failed(f"{file.name} was not taken in: {done}")
            collection = done.data["collection_id"]
            direct = Direct(lab, collection)
            print(f"\nloaded {os.getloadavg()[0]:.1f} before; measuring", flush=True)
            both = {"in memory": gateway, "in Redis": with_redis}
            return {
                "uncached": added(client, direct, asked.pairs),
                "connections": CONNECTIONS,
                "cached": cached(both, direct, lab.url, asked.rounds, asked.seconds, folder),
            }


def show(figures: dict[str, Any]) -> None:
    """The table."""
    one = figures["uncached"]
    print(f"\nan uncached search, 1 connection, {one['pairs']} pairs   p50 ms   p90 ms   p99 ms")
    for way, said in (("direct", "R2R itself"), ("gateway", "through Switchyard"), ("added", "added in a pair")):
        print(f"  {said:<44} {one[f'{way}_p50_ms']:8.2f} {one[f'{way}_p90_ms']:8.2f} {one[f'{way}_p99_ms']:8.2f}")
    _goal("added at p50", one["added_p50_ms"], ADDED_GOAL_MS)
    head = "  p50 ms   p99 ms   max ms  calls/s  CPU µs of the gateway"
    print(f"\nthe same search, {figures['connections']} connections            {head}")
    for way, row in figures["cached"].items():
        times = f"{row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {row['max_ms']:8.1f}"
        print(f"  {way:<36} {times} {row['calls_per_second']:8.0f} {row['cpu_us']:8.0f}")
        if "cached" in way:
            _goal("p99", row["p99_ms"], CACHED_GOAL_MS)


def _goal(what: str, found: float, goal: float) -> None:
    print(f"    {what} {found:.2f} ms, goal {goal:g} ms: {'met' if found <= goal else 'MISSED'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the gateway, an optimised build")
    parser.add_argument("--home", type=Path, default=home(), help="where the packages of R2R are kept")
    parser.add_argument("--pairs", type=int, default=300, help="of uncached searches")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is visited")
    parser.add_argument("--seconds", type=float, default=4, help="how long a visit counts")
    parser.add_argument("--json", type=Path, default=Path("r2r.json"), help="where the figures are written")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    folder = Path(tempfile.mkdtemp(prefix="backends-"))
    folder.chmod(0o755)  # PostgreSQL may run as another user
    try:
        if not shutil.which("wrk"):
            raise Failed("wrk is missing; on Debian: apt-get install wrk")
        figures = measure(asked, folder)
    except Failed as error:
        print(f"measure: {error}; logs: {folder}", file=sys.stderr)
        return 1
    show(figures)
    asked.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"\nwritten to {asked.json}")
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
