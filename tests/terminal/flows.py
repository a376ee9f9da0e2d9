"""What a person types, and what the screens must show."""

import json
import re

from lab import Lab, check
from terminal import PROMPT, Terminal


def fits(terminal: Terminal) -> None:
    """No line had to be wrapped."""
    for line in terminal.screen().splitlines():
        check(len(line.rstrip()) <= terminal.size[0], f"wider than {terminal.size[0]} columns: {line!r}")


def first_steps(lab: Lab, terminal: Terminal) -> None:
    """`init`, `add`, `connect`, and a call that asks, as a newcomer types them."""
    server = f"python3 {lab.server}"
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

    terminal.start(f"switchyard add issues -- {server}")
    terminal.see("+   issues:", "+     command: python3", "Write mcp_servers.yaml? [y/N]")
    terminal.type("y")
    terminal.end("mcp_servers.yaml: written, the old content is in")
    terminal.run(f"printf 'server:\\n  listen: 127.0.0.1:{lab.port}\\n' >> mcp_servers.yaml; switchyard check", "issues")

    terminal.run("switchyard connect", "claude-code", "not connected")
    terminal.start("switchyard connect claude-code")
    terminal.see(f'+       "url": "http://127.0.0.1:{lab.port}/mcp"', f"Write {client}? [y/N]")
    check(client.read_text() == before, "the file of the client is written after the answer")
    terminal.type("y")
    terminal.end("Restart Claude Code to connect; `--undo` restores its file.")
    check("switchyard" in json.loads(client.read_text())["mcpServers"], "Claude Code is connected")

    with lab.gateway(terminal.home / "mcp_servers.yaml"):
        terminal.run("switchyard servers", "issues", "ready", "closed")
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


def status_is_watched_until_ctrl_c(lab: Lab) -> None:
    with lab.terminal() as terminal:
        config = lab.two_servers(terminal.home)
        terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
        with lab.gateway(config):
            terminal.run("for i in 1 2 3; do echo line $i; done", "line 3")
            # Without clearing the screen.
            terminal.type("switchyard status --watch")
            terminal.see("1 of 2 servers are healthy", "issues", "gone")
            check("line 3" not in terminal.screen(), "the watch has the whole screen")
            terminal.resize(160, 40)
            rate = re.compile(r"^issues +ready +closed +[1-9]\S* +0\.0 ", re.MULTILINE)

            def has_rate(screen: str) -> bool:
                lab.call()
                return rate.search(screen) is not None

            shown = terminal.wait(has_rate, "the rate of the calls")
            check(shown.count("SERVER") == 1, f"the screen is drawn again, not continued:\n{shown}")
            check("\x1b[31mfailed" in terminal.screen(colors=True), "states have colors")
            fits(terminal)
            # Fewer lines than the table has: its end is cut, and nothing scrolls.
            terminal.resize(50, 6)
            terminal.wait(lambda screen: "SERVER" in screen and "gone" in screen and "issues" not in screen, "the first server alone")
            terminal.wait(lambda _: "GMT" in terminal.rows()[0], "the title in the first row")
            terminal.resize(80, 24)
            terminal.see("issues")
        terminal.see("cannot reach the gateway")
        with lab.gateway(config):
            terminal.see("1 of 2 servers are healthy")
            terminal.keys("C-c")
            terminal.wait(lambda screen: screen.rstrip().endswith(PROMPT.strip()), "the prompt")
            check(terminal.code() == 130, "Ctrl-C ends it")
            terminal.start("NO_COLOR=1 switchyard status --watch")
            terminal.see("1 of 2 servers are healthy")
            colors = terminal.screen(colors=True)
            check(not re.search(r"\x1b\[3[1-7]m", colors), f"NO_COLOR is respected: {colors!r}")
            lab.revoke(config)
            terminal.wait(lambda screen: screen.rstrip().endswith(PROMPT.strip()), "the prompt")
            check(terminal.code() == 4, "a revoked key ends it")


CHECKS = (
    init_to_call,
    init_to_call_at_50_columns,
    status_is_watched_until_ctrl_c,
)
