"""What the tests of packages share: the files to install, commands with their output, and a gateway that has to answer."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import tomllib

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "lab"))

from caller import Caller  # noqa: E402
from checks import check  # noqa: E402
from programs import Failed, Program, accepts, free_port, until  # noqa: E402
from programs import output as run  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
__all__ = ["Failed", "Packages", "REPOSITORY", "answers", "check", "free_port", "handbook", "run", "serving", "version"]


class Packages:
    """The files that `scripts/package` made, and folders that end with the run."""

    def __init__(self, folder, out):
        self.folder, self.out = folder, out
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self._stack.close()

    def one(self, pattern):
        """The only file that fits. A folder with two versions is refused."""
        found = sorted(self.folder.glob(pattern))
        check(len(found) == 1, f"{len(found)} files fit {pattern} in {self.folder}")
        return found[0]

    def scratch(self):
        """A new folder."""
        made = tempfile.TemporaryDirectory(dir=self.out, ignore_cleanup_errors=True)
        return pathlib.Path(self._stack.enter_context(made))


def version(command):
    """`--version` has to name the program and the version of this repository."""
    wanted = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    told = run([*command, "--version"]).strip()
    check(told == f"switchyard {wanted}", f"--version prints {told!r}")


@contextlib.contextmanager
def serving(command, port, folder, environment=None, ends=0):
    """A gateway that listens on the port. At the end it gets SIGTERM, unless it ended before; `ends` is its exit code."""
    command = [str(part) for part in command]
    with Program("switchyard", command, folder / "serve.log", {**os.environ, **(environment or {})}) as program:
        program.wait_until("listens", lambda: accepts(port))
        yield program
        program.signal(signal.SIGTERM)
        code = program.wait()
        check(code == ends, f"the exit code is {code}, not {ends}")


def answers(command, port, folder, environment=None):
    """Starts the gateway, calls a tool over REST, ends it: the handbook finds the page about servers."""
    asked = {"tool": "search_handbook", "arguments": {"query": "how do I add a server"}}
    with serving(command, port, folder, environment):
        caller = Caller(f"http://127.0.0.1:{port}")

        def finds():
            told = caller.ask("POST", "/api/v1/mcp/call", asked).body
            # At first the handbook is still reading.
            return told.get("success") and told["data"]["count"]

        until("a call finds something", finds, 30)


def handbook(folder, docs=REPOSITORY / "docs"):
    """A configuration file with one server that needs nothing else."""
    file = folder / "mcp_servers.yaml"
    entry = {"transport": "builtin", "builtin": "handbook", "handbook": {"path": str(docs)}}
    file.write_text(json.dumps({"mcp_servers": {"handbook": entry}}))
    return file
