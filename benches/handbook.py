#!/usr/bin/env python3
"""What the handbook costs: start, memory, and search at 1 and 50 connections.

Over this repository's docs/ and over a generated corpus, through the real program and its REST API, with
the query cache off (each search is worked out) and on (few questions, often). Prints the table of
docs/handbook.md. Needs nothing but Python 3.11 and a built program:

    cargo build --release && benches/handbook.py --binary target/release/switchyard
"""

import argparse
import asyncio
import json
import pathlib
import random
import re
import shutil
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/lab"))

from programs import Gateway  # noqa: E402

SYLLABLES = ["ka", "lo", "mi", "ten", "sur", "ve", "dran", "pol", "ish", "or"]
PATIENCE = 120.0


class Language:
    """Words as rare as in a language: the n-th stands in a text with a chance of about 1/n."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def word(self):
        rank = 20_000 // (1 + self.random.randrange(20_000))
        left = rank + self.random.randrange(1 + rank // 4) + 20
        word = ""
        while left:
            word += SYLLABLES[left % 10]
            left //= 10
        return word

    def text(self, words):
        return " ".join(self.word() for _ in range(words))

    def document(self, number):
        parts = [f"# {self.text(2)} {number}\n\n{self.text(40)}\n"]
        parts += [f"## {self.text(3)}\n\n{self.text(50)}.\n\n{self.text(40)}\n" for _ in range(6)]
        parts.append(f"## Marker\n\nThe marker is unique_{number}_marker.\n")
        return "\n".join(parts)


def generated(folder, count):
    language = Language(7)
    for number in range(count):
        file = folder / f"part{number % 20}" / f"chapter{number % 7}" / f"d{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(language.document(number))
    words = Language(8)
    return lambda at: words.text(1 + at % 6)


def documentation(folder):
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    words = re.findall(r"[A-Za-z_]{3,}", " ".join(file.read_text() for file in sorted(folder.glob("*.md"))))
    chosen = random.Random(9)
    return lambda at: " ".join(chosen.choice(words) for _ in range(1 + at % 6))


def gateway(binary, folder, cache_size, home):
    """The program with one handbook, in a `with` block."""
    options = {"path": str(folder), "cache_size": cache_size}
    servers = {"handbook": {"transport": "builtin", "builtin": "handbook", "handbook": options}}
    return Gateway(pathlib.Path(binary), servers, pathlib.Path(home, "serve.log"))


def resident(running):
    status = pathlib.Path(f"/proc/{running.pid()}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


async def until_ready(port):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            connection = await Connection.open(port)
            return await connection.search("marker")
        except (OSError, ValueError):
            await asyncio.sleep(0.005)
    raise SystemExit("the handbook does not answer")


class Connection:
    @classmethod
    async def open(cls, port):
        self = cls()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def search(self, query):
        """Seconds until the whole answer was there."""
        body = json.dumps({"tool": "search_handbook", "arguments": {"query": query}})
        head = (
            "POST /api/v1/mcp/call HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        self.writer.write((head + body).encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
        answer = await self.reader.readexactly(length)
        took = time.perf_counter() - began
        if not head.startswith(b"HTTP/1.1 200") or b'"count"' not in answer:
            raise ValueError(answer[:300])
        return took


async def load(port, connections, seconds, question):
    """Every answer's time, and searches a second."""
    times, at = [], iter(range(10**9))
    end = time.monotonic() + seconds

    async def caller():
        connection = await Connection.open(port)
        while time.monotonic() < end:
            times.append(await connection.search(question(next(at))))

    began = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(connections)))
    return times, len(times) / (time.monotonic() - began)


def cell(times):
    times = sorted(times)
    at = lambda share: times[int((len(times) - 1) * share)] * 1e3
    return f"{at(0.5):.1f} / {at(0.99):.1f} ms"


async def measure(name, binary, folder, question, options):
    starts, memory = [], []
    with tempfile.TemporaryDirectory() as home:
        for _ in range(options.starts):
            began = time.monotonic()
            with gateway(binary, folder, 0, home) as running:
                await until_ready(running.port)
                starts.append(time.monotonic() - began)
                memory.append(resident(running))
        cells = [name, f"{statistics.median(starts) * 1e3:.0f} ms", f"{statistics.median(memory):.0f} MiB"]
        with gateway(binary, folder, 0, home) as running:
            await until_ready(running.port)
            await load(running.port, 4, 1, question)
            for connections in [1, 50]:
                times, rate = await load(running.port, connections, options.seconds, question)
                cells.append(f"{cell(times)} ({rate:.0f}/s)")
            cells.append(f"{resident(running):.0f} MiB")
        asked, few = [question(at) for at in range(80)], random.Random(10)
        with gateway(binary, folder, 100, home) as running:
            await until_ready(running.port)
            times, rate = await load(running.port, 50, options.seconds, lambda _: few.choice(asked))
            cells.append(f"{cell(times)} ({rate:.0f}/s)")
    print("| " + " | ".join(cells) + " |", flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/switchyard"))
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    binary = str(pathlib.Path(options.binary).resolve())
    print("| folder | start to first hit | memory then | 1 connection, p50 / p99 | 50 connections, p50 / p99 "
          "| memory after | 50 connections, 80 questions again and again |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        question = documentation(folder)
        await measure(f"`docs/`, {len(list(folder.glob('*.md')))} documents", binary, folder, question, options)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        question = generated(folder, options.documents)
        await measure(f"{options.documents:,} documents", binary, folder, question, options)


asyncio.run(main())
