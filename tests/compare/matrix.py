"""Which servers are compared with which clients, and how each pair is started directly and behind Switchyard.

Every run has its own server, its own gateway and its own folder. Over HTTP and SSE the registry says nothing about
sharing. For programs it says `sharing: per_session`, as its user would for those that keep state or ask for roots.
"""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import actions
from programs import Gateway, Peers, free_port, start_listening

HERE = Path(__file__).resolve().parent

#: What reaches a child process, directly and through Switchyard alike.
INHERITED = ("HOME", "PATH")

#: A PNG of one pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Server:
    """A server on one transport; `command` gets a port that only servers with one look at."""

    name: str
    transport: str
    command: Callable[[Peers, int], list[str]]
    steps: Callable[[Path], list[actions.Step]]
    path: str = ""
    #: The clients that visit it; all, where none are named.
    clients: tuple[str, ...] = ()


@dataclass(frozen=True)
class Client:
    """A client program; `mode` is how it settles the era."""

    name: str
    program: str
    file: str
    mode: str


#: The Python SDK in the legacy era is what fastmcp in that era is built on.
_SDKS = ("typescript-1", "typescript-2", "typescript-auto", "python-legacy", "python", "fastmcp")
#: Over SSE there is the legacy era only, whatever the mode.
_ONE_ERA = ("typescript-1", "typescript-2", "python", "fastmcp")
#: FastMCP speaks the modern era over SSE too, to clients that ask for it; Switchyard speaks the legacy one there.
_LEGACY = ("typescript-1", "typescript-2", "python-legacy")
#: Each run starts five processes of Python with FastMCP, each of them some seconds of computing.
_FEW = ("typescript-1", "python", "fastmcp-legacy")


def everything(transport: str) -> Server:
    word = {"http": "streamableHttp"}.get(transport, transport)
    path = {"http": "/mcp", "sse": "/sse"}.get(transport, "")
    return Server(
        f"everything-{transport}",
        transport,
        lambda peers, _: [peers.program("mcp-server-everything"), word],
        lambda _: actions.everything(),
        path,
        _ONE_ERA if transport == "sse" else _SDKS,
    )


def state(transport: str) -> Server:
    return Server(
        f"state-{transport}",
        transport,
        lambda peers, port: [peers.program("peer-python"), str(HERE / "servers" / "state.py"), transport, str(port)],
        lambda _: actions.state(),
        {"http": "/mcp", "sse": "/sse"}.get(transport, ""),
        {"stdio": _FEW, "sse": _LEGACY}.get(transport, ()),
    )


SERVERS = (
    everything("stdio"),
    everything("http"),
    everything("sse"),
    # Its first folder is where it may work until it has heard the roots of its client.
    Server(
        "filesystem-stdio",
        "stdio",
        lambda peers, _: [peers.program("mcp-server-filesystem"), "."],
        lambda folder: actions.filesystem(str(folder)),
        clients=_SDKS,
    ),
    state("stdio"),
    state("http"),
    state("sse"),
)

CLIENTS = (
    Client("typescript-1", "peer-node", "typescript-1.mjs", "legacy"),
    Client("typescript-2", "peer-node", "typescript-2.mjs", "legacy"),
    Client("typescript-auto", "peer-node", "typescript-2.mjs", "auto"),
    Client("python-legacy", "peer-python", "python_sdk.py", "legacy"),
    Client("python", "peer-python", "python_sdk.py", "auto"),
    Client("fastmcp-legacy", "peer-python", "fastmcp_client.py", "legacy"),
    Client("fastmcp", "peer-python", "fastmcp_client.py", "auto"),
)


def pairs() -> Iterator[tuple[Server, Client]]:
    """Which client visits which server."""
    for server in SERVERS:
        for client in CLIENTS:
            if not server.clients or client.name in server.clients:
                yield server, client


def prepare(folder: Path) -> None:
    """The files that server-filesystem works on."""
    for name in ("one", "two", "three"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.txt").write_text(f"{name}\n")
    (folder / "one" / "one.png").write_bytes(PIXEL)


def environment(peers: Peers) -> dict[str, str]:
    everywhere = peers.env()
    return {name: everywhere[name] for name in INHERITED if name in everywhere}


@contextmanager
def target(server: Server, peers: Peers, folder: Path, binary: Path | None) -> Iterator[dict[str, Any]]:
    """Where a client finds the server: itself, or behind the gateway `binary`."""
    port = free_port()
    command, env = server.command(peers, port), environment(peers)
    if server.transport == "stdio":
        entry: dict[str, Any] = {"command": command[0], "args": command[1:], "cwd": str(folder)}
        with _through(server, entry, folder, env, binary) as found:
            yield found or {"transport": "stdio", "command": command, "env": env, "cwd": str(folder)}
        return
    with start_listening("server", command, port, folder / "server.log", {**env, "PORT": str(port)}):
        entry = {"url": f"http://127.0.0.1:{port}{server.path}", "transport": server.transport}
        with _through(server, entry, folder, env, binary) as found:
            yield found or entry


@contextmanager
def _through(
    server: Server, entry: dict[str, Any], folder: Path, env: dict[str, str], binary: Path | None
) -> Iterator[dict[str, Any] | None]:
    if binary is None:
        yield None
        return
    # The timeout also bounds a connect: Python with FastMCP starts slowly where other tests run.
    sharing = {"sharing": "per_session"} if server.transport == "stdio" else {}
    registry = {"peer": {**entry, **sharing, "timeout": 120}}
    # Clients of HTTP+SSE stay with it; all others use the endpoint of one server.
    sse = server.transport == "sse"
    with Gateway(binary, registry, folder / "gateway.log", env) as gateway:
        url = f"{gateway.url}/peer"
        yield {"transport": "sse", "url": url.replace("/mcp/", "/sse/")} if sse else {"transport": "http", "url": url}
