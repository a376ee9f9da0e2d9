"""What a person types, and what the screens must show."""

from __future__ import annotations

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


#: The files of clients in `clients`, where each belongs, and the states of its servers in the order of the table.
CLIENTS = {
    "claude-code.json": (".claude.json", {"asker": "ready", "notes": "ready", "tracker": "disabled"}),
    "codex.toml": (".codex/config.toml", {"asker": "ready", "docs": "disabled", "old": "disabled"}),
    "continue.yaml": (".continue/config.yaml", {"asker": "ready", "search": "disabled"}),
    "cursor.json": (".cursor/mcp.json", {"asker": "ready", "linear": "disabled"}),
    "gemini.json": (".gemini/settings.json", {"asker": "ready", "off": "disabled", "web": "disabled"}),
    "goose.yaml": (".config/goose/config.yaml", {"asker": "ready", "old": "disabled"}),
    "opencode.json": (".config/opencode/opencode.json", {"asker": "ready", "old": "disabled", "sentry": "disabled"}),
    "vscode.json": (".config/Code/User/mcp.json", {"asker": "ready", "my-issues": "disabled"}),
    "windsurf.json": (".codeium/windsurf/mcp_config.json", {"asker": "ready", "hub": "disabled", "old": "disabled"}),
    "zed.json": (".config/zed/settings.json", {"asker": "ready", "figma": "disabled"}),
}
#: Files in which a person switched off the tool `book`.
WITHOUT_BOOK = ("codex.toml", "gemini.json", "opencode.json", "windsurf.json", "zed.json")
#: Lines of an entry with one mistake each.
MISTAKES = (
    'url: "${NO_SUCH_VARIABLE}/mcp"',
    'command: "true"\n    env: {A: "${secret:NOT_THERE}"}',
    'command: "true"\n    timeot: 5',
    'command: "true"\n    timeout: 900',
    'command: "true"\n    timeout: soon',
    "transport: streamable-http\n    url: http://127.0.0.1:1/mcp",
    "transport: stdio\n    url: http://127.0.0.1:1/mcp",
    "transport: builtin\n    builtin: nothing",
    "url: not-a-url",
    'command: "true"\n    tools: {allow: everything}',
    'command: "true"\n    command: "false"',
    "url: http://127.0.0.1:1/mcp\n    headers: one",
)


def shows_states(terminal: Terminal, states: dict[str, str]) -> None:
    """`switchyard servers` has these servers and no other."""
    shown = terminal.run("switchyard servers", "SERVER")
    found = dict(re.findall(r"^(\S+) +(ready|disabled|not_configured|failed|connecting|idle)\b", shown, re.MULTILINE))
    check(found == states, f"expected {states}:\n{shown}")


def every_client_file_is_taken_and_runs(lab: Lab) -> None:
    for name, (place, states) in CLIENTS.items():
        with lab.terminal((120, 40)) as terminal:
            file = terminal.home / place
            file.parent.mkdir(parents=True, exist_ok=True)
            text = (lab.asker.parent / "clients" / name).read_text()
            file.write_text(text.replace("@ASKER@", str(lab.asker)).replace("@HOME@", str(terminal.home)))
            terminal.run("switchyard init --yes > init.log 2>&1")
            check(terminal.code() == 0, f"{name}: {(terminal.home / 'init.log').read_text()}")
            config = terminal.home / "mcp_servers.yaml"
            config.write_text(f"server: {{listen: '127.0.0.1:{lab.port}'}}\n{config.read_text()}")
            terminal.run("switchyard check", "asker")
            check(terminal.code() == 0, f"{name}: `check` accepts what `init` wrote")
            with lab.gateway(config):
                shows_states(terminal, states)
                tools = terminal.run("switchyard tools", "echo")
                check(("book" in tools) == (name not in WITHOUT_BOOK), f"{name}: tools stay switched off:\n{tools}")
                terminal.run(f"switchyard call {'asker__' if 'notes' in states else ''}echo", "hello")


def every_mistake_costs_its_own_server_only(lab: Lab) -> None:
    for mistake in MISTAKES:
        with lab.terminal((120, 40)) as terminal:
            config = terminal.home / "mcp_servers.yaml"
            good = f"  asker:\n    command: python3\n    args: ['{lab.asker}']\n"
            config.write_text(f"server: {{listen: '127.0.0.1:{lab.port}'}}\nmcp_servers:\n  wrong:\n    {mistake}\n{good}")
            terminal.run("switchyard check", "wrong")
            check(terminal.code() == 2, f"{mistake}: `check` names the mistake")
            with lab.gateway(config):
                shows_states(terminal, {"wrong": "not_configured", "asker": "ready"})
                terminal.run("switchyard call echo", "hello")


def status_is_watched_until_ctrl_c(lab: Lab) -> None:
    with lab.terminal() as terminal:
        config = lab.two_servers(terminal.home)
        terminal.run("export SWITCHYARD_KEY=$(cat operator.key)")
        with lab.gateway(config):
            terminal.run("for i in 1 2 3; do echo line $i; done", "line 3")
            # Without clearing the screen.
            terminal.type("switchyard status --watch")
            terminal.see("1 of 2 servers are healthy", "asker", "gone")
            check("line 3" not in terminal.screen(), "the watch has the whole screen")
            terminal.resize(160, 40)
            rate = re.compile(r"^asker +ready +closed +[1-9]\S* +0\.0 ", re.MULTILINE)

            def has_rate(screen: str) -> bool:
                lab.call()
                return rate.search(screen) is not None

            shown = terminal.wait(has_rate, "the rate of the calls")
            check(shown.count("SERVER") == 1, f"the screen is drawn again, not continued:\n{shown}")
            check("\x1b[31mfailed" in terminal.screen(colors=True), "states have colors")
            fits(terminal)
            # Fewer lines than the table has: its end is cut, and nothing scrolls.
            terminal.resize(50, 6)
            terminal.wait(lambda screen: "SERVER" in screen and "gone" in screen and "asker" not in screen, "the first server alone")
            terminal.wait(lambda _: "GMT" in terminal.rows()[0], "the title in the first row")
            terminal.resize(80, 24)
            terminal.see("asker")
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
    every_client_file_is_taken_and_runs,
    every_mistake_costs_its_own_server_only,
    status_is_watched_until_ctrl_c,
)
