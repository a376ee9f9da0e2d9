#!/usr/bin/env python3
"""Writes the table of docs/performance.md from runs of the system benchmark.

  benches/summary.py PLAIN.json [PGO.json]

Each file is what `cargo bench --bench system -- --json FILE` wrote: the first for the program of
`cargo build --release`, the second for that of `scripts/release --bare`. In both runs the bare hop must be
built as the gateway is, because every figure is a ratio between the two.
"""

import json
import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN = "<!-- written by benches/summary.py -->\n"
END = "<!-- end -->\n"
# What a row is called, and the scenario, connections and way of the benchmark that it shows.
ROWS = [
    ("100 bytes, 1 connection", "echo", 1, "gateway"),
    ("100 bytes, 16 connections", "echo", 16, "gateway"),
    ("100 bytes, 64 connections", "echo", 64, "gateway"),
    ("100 bytes, 256 connections", "echo", 256, "gateway"),
    ("100 bytes in legacy sessions, 64 connections", "forms", 64, "gateway, legacy session"),
    ("100 bytes over REST, 64 connections", "forms", 64, "gateway, REST"),
    ("100 bytes as an event stream, 64 connections", "forms", 64, "gateway, event stream"),
    ("a result of 64 KiB, 16 connections", "64 KiB", 16, "gateway"),
    ("a result of 1 MiB, 16 connections", "1 MiB", 16, "gateway"),
    ("a request of 1 MiB, 16 connections", "1 MiB sent", 16, "gateway"),
    ("a list of 500 tools of ten servers, 16 connections", "10 × 50 tools", 16, "gateway"),
    ("100 bytes to a child process, 16 connections", "stdio", 16, "gateway"),
]


def row_of(run, scenario, connections, way):
    """The row of the run with this name."""
    key = (scenario, connections, way)
    found = [row for row in run["rows"] if (row["scenario"], row["connections"], row["way"]) == key]
    if len(found) != 1:
        sys.exit(f"{len(found)} rows for {key}: was the whole benchmark run?")
    return found[0]


def rate(row):
    """The rate as a share of the hop's, with the lowest and the highest of the rounds."""
    spread = row["of_limit"]
    return f"{spread['median']:.2f} ({spread['least']:.2f} to {spread['most']:.2f})"


def cells(row):
    """The figures of one build."""
    return [rate(row), f"{row['processor_of_limit']:.2f}", f"{row['p50_us']:,.0f} µs", f"{row['p99_us']:,.0f} µs"]


def table(runs):
    """One line for each row; the figures of the plain build, then those of the PGO build."""
    builds = ["plain", "PGO"][: len(runs)]
    head = ["call", *(f"{figure}, {build}" for build in builds for figure in ("rate", "CPU time", "p50", "p99"))]
    lines = [head, ["---"] * len(head)]
    for name, *key in ROWS:
        lines.append([name, *(cell for run in runs for cell in cells(row_of(run, *key)))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(paths):
    runs = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE.name} has no place for the table")
    PAGE.write_text(f"{before}{BEGIN}\n{table(runs)}\n\n{END}{after}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1:])
