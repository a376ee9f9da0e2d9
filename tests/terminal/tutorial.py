"""The tutorial, typed as it is written, with servers of `scripts/peers`; and the session of which the documentation has a cast."""

import os
import re
from pathlib import Path

from lab import Lab, check
from terminal import PROMPT, Terminal

DOCS = Path(__file__).resolve().parents[2] / "docs"
CAST = DOCS / "images/first-call.cast.txt"
#: Fenced blocks of a page: language and text.
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What npx and uvx would download, and what scripts/peers installed.
SHIMS = {
    "npx": '[ "$1" = -y ] && shift; package=${1##*/}; shift; exec "$PEERS/bin/mcp-$package" "$@"',
    "uvx": 'server=$1; shift; exec "$PEERS/bin/$server" "$@"',
    "claude": 'exec "$PEERS/bin/claude" "$@"',
}
#: The model of Claude Code is a service, so its answer cannot be had here.
NOT_RUN = "claude --print"


def is_run(command: str) -> bool:
    """Whether a command can be run: scripts/peers may have been told to leave out Claude Code."""
    has_claude = Path(os.environ["SWITCHYARD_PEERS"], "bin/claude").exists()
    return not command.startswith(NOT_RUN) and (has_claude or not command.startswith("claude "))


def prepare(lab: Lab, terminal: Terminal) -> dict[str, str]:
    """Programs of the peers under the names that the page has, and a port of this test; returns both as variables."""
    peers = os.environ.get("SWITCHYARD_PEERS", "")
    check(Path(peers, "bin/mcp-server-memory").exists(), "set SWITCHYARD_PEERS to the output of scripts/peers")
    programs = terminal.home / "bin"
    programs.mkdir()
    for name, script in SHIMS.items():
        path = programs / name
        path.write_text(f"#!/bin/sh\nPEERS={peers}\nPATH={peers}/bin:$PATH\n{script}\n")
        path.chmod(0o755)
    variables = {"PATH": f"{programs}:{lab.binary.parent}:/usr/local/bin:/usr/bin:/bin", "SWITCHYARD_LISTEN": f"127.0.0.1:{lab.port}"}
    terminal.run("export " + " ".join(f"{name}={value}" for name, value in variables.items()))
    return variables


def typed(lab: Lab, terminal: Terminal, command: str) -> str:
    """Types a command and returns what it printed, with paths and the port as on the machine of a reader."""
    command = command.replace("127.0.0.1:8080", f"127.0.0.1:{lab.port}")
    terminal.keys("C-l")
    terminal.run(command)
    lines = [line.rstrip() for line in terminal.screen().rstrip().splitlines()]
    check(lines[-1] == PROMPT.strip(), f"the command ended: {lines[-1]!r}")
    printed = "\n".join(lines[1:-1]) + "\n"
    return printed.replace(str(terminal.home), "/home/you").replace(str(lab.port), "8080")


def steady(text: str) -> str:
    """Without what differs between runs: durations, dates, and how wide a column is."""
    text = re.sub(r"\d+(\.\d+)? (ms|s)\b", "N ms", text)
    text = re.sub(r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day", "DAY", text)
    return re.sub(r"\d{4}-\d\d-\d\d(T[\d:+-]+)?", "DATE", re.sub(r"[ ]+", " ", text))


def tutorial_gives_the_result_that_it_shows(lab: Lab) -> None:
    """Every command of the page runs, and prints what the page shows below it."""
    page = (DOCS / "tutorial.md").read_text()
    with lab.terminal((160, 60)) as terminal:
        variables = prepare(lab, terminal)
        blocks = BLOCK.findall(page)
        started = next(at for at, (_, text) in enumerate(blocks) if text.strip() == "switchyard")
        shown = run_blocks(lab, terminal, blocks[:started])
        with lab.gateway(terminal.home / "first-gateway/mcp_servers.yaml", **variables):
            shown += run_blocks(lab, terminal, blocks[started + 1 :])
        check(shown >= 4, f"the page shows only {shown} results")


def run_blocks(lab: Lab, terminal: Terminal, blocks: list[tuple[str, str]]) -> int:
    """Types each command of the blocks, and returns how many results were compared."""
    shown = 0
    for language, text in blocks:
        lines = text.replace("\\\n", " ").splitlines()
        if language == "sh":
            for command in lines:
                if command and is_run(command):
                    typed(lab, terminal, command)
                    check(terminal.code() == 0, f"fails: {command}")
            continue
        command = lines[0].removeprefix("$ ")
        if not is_run(command):
            continue
        printed = steady(typed(lab, terminal, command))
        for line in lines[1:]:
            check(steady(line) in printed, f"{command}\nwanted: {line}\nprinted:\n{printed}")
        shown += 1
    return shown


#: The session of the cast: from nothing to the first call.
SESSION = (
    "switchyard init --no-import --yes",
    "switchyard add time --yes -- uvx mcp-server-time",
    "switchyard connect claude-code --yes",
    "switchyard tools",
    """switchyard call convert_time source_timezone=Asia/Kolkata time=09:30 target_timezone=Asia/Tokyo""",
)


def cast_of_the_documentation_is_a_real_session(lab: Lab) -> None:
    """Runs the session of the cast. `UPDATE_GOLDEN=1` writes it, and `scripts/pictures` draws it."""
    with lab.terminal((92, 40)) as terminal:
        variables = prepare(lab, terminal)
        session = ""
        for command in SESSION[:3]:
            session += f"$ {command}\n{typed(lab, terminal, command)}\n"
        with lab.gateway(terminal.home / "mcp_servers.yaml", **variables):
            for command in SESSION[3:]:
                session += f"$ {command}\n{typed(lab, terminal, command)}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        CAST.write_text(session)
    check(steady(CAST.read_text()) == steady(session), f"{CAST} is another session: set UPDATE_GOLDEN=1\n{session}")


CHECKS = (tutorial_gives_the_result_that_it_shows, cast_of_the_documentation_is_a_real_session)
