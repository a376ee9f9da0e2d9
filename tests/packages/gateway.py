"""What the tests of packages share: the files to install, commands with their output, and a gateway that has to answer."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "lab"))

from programs import free_port as free_port  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
PATIENCE = 30


class Failed(Exception):
    """A package does not do what it should."""


class Packages:
    """The files that `scripts/package` made, and a folder that outlives one test."""

    def __init__(self, folder, work):
        self.folder, self.work = folder, work

    def one(self, pattern):
        """The only file that fits. A folder with two versions is refused."""
        found = sorted(self.folder.glob(pattern))
        if len(found) != 1:
            raise Failed(f"{len(found)} files fit {pattern} in {self.folder}")
        return found[0]


def check(condition, text):
    if not condition:
        raise Failed(text)


def run(command, code=0, **options):
    """Runs a command; its output. Another exit code is a failure that shows what it said."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 300} | options
    done = subprocess.run([str(part) for part in command], **options)
    if done.returncode != code:
        raise Failed(f"exit code {done.returncode}, not {code}: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def version(command):
    """`--version` has to name the program and the version of this repository."""
    wanted = next(line.split('"')[1] for line in (REPOSITORY / "Cargo.toml").read_text().splitlines() if line.startswith("version = "))
    told = run([*command, "--version"]).strip()
    check(told == f"switchyard {wanted}", f"--version prints {told!r}")


@contextlib.contextmanager
def serving(command, port, environment=None, ends=0, **options):
    """A gateway that listens on the port. At the end it gets SIGTERM, unless it ended before; `ends` is its exit code."""
    environment = {**os.environ, **(environment or {})}
    child = subprocess.Popen([str(part) for part in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    try:
        until_live(child, port)
        yield child
        child.send_signal(signal.SIGTERM)
        code = child.wait(PATIENCE)
        check(code == ends, f"the exit code is {code}, not {ends}")
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()


def until_live(child, port):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise Failed(f"the program ended with exit code {child.returncode}: {child.stdout.read().decode()}")
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=2):
                return
        time.sleep(0.05)
    raise Failed(f"nothing answers at port {port} after {PATIENCE} s")


def search(port):
    """Calls a tool over REST: the handbook finds the page about servers."""
    deadline, told = time.monotonic() + PATIENCE, None
    body = json.dumps({"tool": "search_handbook", "arguments": {"query": "how do I add a server"}}).encode()
    while time.monotonic() < deadline:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/mcp/call", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                told = json.load(response)
            if told.get("success") and told["data"]["count"]:
                return
        except urllib.error.HTTPError as error:
            # The handbook is still reading.
            told = error.read().decode()
        time.sleep(0.1)
    raise Failed(f"a call finds nothing: {told}")


def answers(command, port, environment=None, **options):
    """Starts the gateway, calls a tool, ends it."""
    with serving(command, port, environment, **options):
        search(port)


def handbook(folder, docs=REPOSITORY / "docs"):
    """A configuration file with one server that needs nothing else."""
    file = folder / "mcp_servers.yaml"
    entry = {"transport": "builtin", "builtin": "handbook", "handbook": {"path": str(docs)}}
    file.write_text(json.dumps({"mcp_servers": {"handbook": entry}}))
    return file
