"""What a person types, and what the screens must show."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import Lab, check
from terminal import PROMPT, Terminal, Wrong


def fits(terminal: Terminal) -> None:
    """No line had to be wrapped."""
    for line in terminal.screen().splitlines():
        check(len(line.rstrip()) <= terminal.size[0], f"wider than {terminal.size[0]} columns: {line!r}")


def first_steps(lab: Lab, terminal: Terminal) -> None:
    """`init`, `add`, `connect`, and a call that asks, as a newcomer types them."""
    asker = f"python3 {lab.asker}"
    client = terminal.home / ".claude.json"
    client.write_text('{\n  "numStartups": 3,\n  "mcpServers": {}\n}\n')
    before = client.read_text()

    terminal.start("switchyard init")
    terminal.see("+ mcp_servers: {}", "Write mcp_servers.yaml? [y/N]")
    terminal.type("n")
    terminal.end("nothing was written")
    check(terminal.code() == 1, "a refused question is a failure")
    check(not (terminal.home / "mcp_servers.yaml").exists(), "nothing is written before the answer")
    terminal.start("switchyard init")
    terminal.see("Write mcp_servers.yaml? [y/N]")
    terminal.type("y")
    terminal.end("mcp_servers.yaml: written", "Next: `switchyard add NAME URL` adds a server")

    terminal.start(f"switchyard add asker -- {asker}")
    terminal.see("+   asker:", "+     command: python3", "Write mcp_servers.yaml? [y/N]")
    terminal.type("y")
    terminal.end("mcp_servers.yaml: written, the old content is in")
    terminal.run(f"printf 'server:\\n  listen: 127.0.0.1:{lab.port}\\n' >> mcp_servers.yaml; switchyard check", "asker")

    terminal.run("switchyard connect", "claude-code", "not connected")
    terminal.start("switchyard connect claude-code")
    terminal.see(f'+       "url": "http://127.0.0.1:{lab.port}/mcp"', f"Write {client}? [y/N]")
    check(client.read_text() == before, "the file of the client is written after the answer")
    terminal.type("y")
    terminal.end("Restart Claude Code to connect; `--undo` restores its file.")
    check("switchyard" in json.loads(client.read_text())["mcpServers"], "Claude Code is connected")

    with lab.gateway(terminal.home / "mcp_servers.yaml"):
        terminal.run("switchyard servers", "asker", "ready", "closed")
        # Below 60 columns, a table of eight is wrapped.
        if terminal.size[0] >= 60:
            fits(terminal)
        answer_a_question(terminal)
    undone = terminal.run("switchyard connect claude-code --undo --yes", str(client))
    check(client.read_text() == before, f"--undo restores the bytes:\n{undone}")


def answer_a_question(terminal: Terminal) -> None:
    """A call whose tool asks: answered, declined, and cancelled with Ctrl-D."""
    terminal.start("switchyard call book")
    terminal.see("The tool asks: Where to?", r"Where to travel\u{1b}[2J", "City [string]:")
    terminal.type("")
    terminal.see("expected a value")
    terminal.type("Oslo")
    terminal.see("1: economy", "2: business", "class [a number or a value of these, default economy]:")
    terminal.type("2")
    terminal.see("bags [integer, default 1]:")
    terminal.type("two")
    terminal.see("expected a whole number")
    terminal.type("2")
    terminal.see("Send this? [Y/n]")
    terminal.type("y")
    terminal.end("booked 2 bags to Oslo, business")
    terminal.start("switchyard call book")
    terminal.see("City [string]:")
    for keys, question in (("Oslo", "class ["), ("", "bags ["), ("", "Send this? [Y/n]")):
        terminal.type(keys)
        terminal.see(question)
    terminal.type("n")
    terminal.end("\ndecline\n")
    terminal.start("switchyard call book")
    terminal.see("City [string]:")
    terminal.keys("C-d")
    terminal.end("cancel\n")
    terminal.run("switchyard call book < /dev/null")
    check(terminal.code() == 1, "without a terminal nobody is asked")


def init_to_call(lab: Lab) -> None:
    with lab.terminal() as terminal:
        first_steps(lab, terminal)


def init_to_call_at_50_columns(lab: Lab) -> None:
    with lab.terminal((50, 24)) as terminal:
        first_steps(lab, terminal)


@contextmanager
def top(lab: Lab, size: tuple[int, int], options: str = "") -> Iterator[Terminal]:
    """`top` on a gateway with two servers: one answers, the other is away."""
    with lab.terminal(size) as terminal:
        config = lab.two_servers(terminal.home)
        with lab.gateway(config):
            terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
            terminal.start(f"switchyard top --interval 500ms {options}")
            terminal.see("1 of 2 ready", "asker", "gone", "failed")
            check(terminal.is_second_screen(), "top has a screen of its own")
            yield terminal


def is_restored(terminal: Terminal, settings: str) -> None:
    """The terminal is as it was before `top`."""
    terminal.wait(lambda screen: not terminal.is_second_screen() and screen.rstrip().endswith(PROMPT.strip()), "the prompt")
    check(terminal.has_cursor(), "the cursor is shown again")
    check(settings == terminal.settings(), "the settings of the terminal are as before")


def top_shows_rates_and_leaves_the_screen(lab: Lab) -> None:
    with lab.terminal() as terminal:
        with lab.gateway(lab.two_servers(terminal.home)):
            terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
            settings = terminal.settings()
            before = terminal.run("for i in 1 2 3; do echo line $i; done", "line 3")
            # Without clearing the screen.
            terminal.type("switchyard top --interval 500ms")
            terminal.see("1 of 2 ready", "SERVER", "BREAKER", "CALLS/S", "P99")
            check("line 3" not in terminal.screen(), "top has the whole screen")
            rate = re.compile(r"^asker +ready +closed +[1-9]\S* +0 +\S+ m?s +\S+ m?s +\d+ +2 +\d+ *$", re.MULTILINE)

            def has_rate(screen: str) -> bool:
                lab.call()
                return rate.search(screen) is not None

            terminal.wait(has_rate, "the rate and durations of the calls")
            colors = terminal.screen(colors=True)
            check("\x1b[31mfailed" in colors, f"states have colors:\n{colors!r}")
            fits(terminal)
            terminal.keys("Enter")
            shown = terminal.see("Last calls", "ok", "echo", "stdio python3")
            check("\x1b" not in shown and "p50 / p99" in shown, shown)
            terminal.keys("G")
            terminal.see("Tools (2)", r"echo  Echoes.\u{1b}[2J\u{1b}[31m")
            terminal.keys("Escape")
            terminal.see("SERVER", "gone")
            terminal.keys("q")
            terminal.end()
            after = terminal.screen()
            check(after.startswith(before.rstrip()), f"the lines from before are there again:\n{after}")
            check("SERVER" not in after, f"nothing of top stays on the screen:\n{after}")
            check(terminal.code() == 0, "q is a success")
            is_restored(terminal, settings)


def top_fits_every_size_and_finds_servers(lab: Lab) -> None:
    with top(lab, (50, 24)) as terminal:
        fits(terminal)
        for size in ((40, 12), (120, 40), (20, 6), (80, 24)):
            terminal.resize(*size)
            end = "reconnect" if size[0] > 66 else "…"
            is_drawn = lambda _: (last := terminal.rows()[-1]).startswith("? help") and last.endswith(end)  # noqa: B023, E731
            terminal.wait(is_drawn, f"a footer at {size}")
            fits(terminal)
        terminal.keys("/", "g", "o")
        terminal.wait(lambda screen: "filter: go_" in screen and "asker" not in screen, "the server that was filtered for")
        terminal.keys("Enter", "Escape")
        terminal.see("asker", "gone")
        terminal.keys("?")
        terminal.see("Keys", "reset the breaker")
        terminal.keys("x", "s")
        terminal.see("sorted by errors")


def top_acts_after_a_confirmation_if_the_role_allows(lab: Lab) -> None:
    with top(lab, (80, 24)) as terminal:
        terminal.keys("G", "c")
        terminal.see("y/n: connect to gone again?")
        terminal.keys("n")
        terminal.see("nothing was done")
        terminal.keys("r", "y")
        terminal.see("gone: the breaker is closed")
        terminal.keys("g", "c", "y")
        terminal.see("asker: connected again")
        terminal.keys("C-c")
        terminal.end()
        terminal.run("export SWITCHYARD_KEY=$(cat reader.key)")
        terminal.start("switchyard top")
        terminal.see("1 of 2 ready")
        terminal.keys("r")
        terminal.see("that needs the role superuser; this credential is a reader")


def top_gives_the_terminal_back_on_signals(lab: Lab) -> None:
    for how in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with lab.terminal() as terminal:
            with lab.gateway(lab.two_servers(terminal.home)):
                terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
                settings = terminal.settings()
                terminal.start("switchyard top")
                terminal.see("1 of 2 ready")
                terminal.kill("switchyard", how)
                is_restored(terminal, settings)


def top_waits_for_a_gateway_that_is_away(lab: Lab) -> None:
    with lab.terminal() as terminal:
        config = lab.two_servers(terminal.home)
        terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
        terminal.run("switchyard top", "cannot reach the gateway")
        check(terminal.code() == 3, "a gateway that is away at the start is an error")
        with lab.gateway(config):
            terminal.run("SWITCHYARD_KEY=wrong switchyard top")
            check(terminal.code() == 4, "a refused key is an error")
            terminal.start("switchyard top --interval 500ms")
            terminal.see("1 of 2 ready")
        terminal.see("away for ", "asking again", "asker")
        with lab.gateway(config):
            terminal.see("1 of 2 ready")
            lab.revoke(config)
            terminal.end()
            check(terminal.code() == 4, "a revoked key ends it")


def top_prints_one_sample_without_a_terminal(lab: Lab) -> None:
    with lab.terminal() as terminal:
        with lab.gateway(lab.two_servers(terminal.home)):
            terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
            terminal.run("switchyard top --interval 500ms | cat > plain")
            plain = (terminal.home / "plain").read_text()
            check(plain.startswith("SERVER  STATE") and "\x1b" not in plain and "asker" in plain, plain)
            terminal.run("switchyard top --once -o json --interval 500ms > json")
            servers = json.loads((terminal.home / "json").read_text())["servers"]
            found = {one["name"]: (one["state"], one["calls_per_second"]) for one in servers}
            check(found == {"asker": ("ready", 0.0), "gone": ("failed", 0.0)}, f"{servers}")
            terminal.run("switchyard top --once --interval 500ms", "CALLS/S", "asker")
            check(not terminal.is_second_screen(), "--once needs no screen of its own")
            terminal.start("NO_COLOR=1 switchyard top")
            terminal.see("1 of 2 ready")
            colors = terminal.screen(colors=True)
            check(not re.search(r"\x1b\[3[1-7]m", colors), f"NO_COLOR is respected: {colors!r}")


CHECKS = (
    init_to_call,
    init_to_call_at_50_columns,
    top_shows_rates_and_leaves_the_screen,
    top_fits_every_size_and_finds_servers,
    top_acts_after_a_confirmation_if_the_role_allows,
    top_gives_the_terminal_back_on_signals,
    top_waits_for_a_gateway_that_is_away,
    top_prints_one_sample_without_a_terminal,
)
