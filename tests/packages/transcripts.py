"""From a package to "Connected": what a person types, as a script that is timed. Each may take 60 s.

Not measured: the download of the client itself (Claude Code is installed by scripts/peers).
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from gateway import check, free_port

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 60
# What every system has, and what each transcript needs beside it: nothing else is on its PATH.
PROGRAMS = ["bash", "sh", "basename", "cat", "grep", "gzip", "kill", "mkdir", "sleep", "tar", "tee"]
NEEDS = {"from-tarball": ["claude"], "with-node": ["claude", "node", "npm"], "with-python": ["python3"]}


def transcript(script):
    def check_it(packages):
        seconds(script, packages, packages.scratch())

    check_it.__name__ = script.stem.replace("-", "_")
    return check_it


def seconds(script, packages, folder):
    """Runs the script in an empty folder, and prints the seconds that it took."""
    # A process group of its own, so that nothing that it started outlives it.
    began, command = time.monotonic(), [shutil.which("bash"), "-euo", "pipefail", "-x", str(script)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    child = subprocess.Popen(command, cwd=folder, env=environment(script.stem, packages, folder), **options)
    try:
        told, _ = child.communicate(timeout=2 * LIMIT)
    except subprocess.TimeoutExpired:
        kill_group(child.pid)
        told, _ = child.communicate()
    finally:
        kill_group(child.pid)
    took = time.monotonic() - began
    print("".join(f"    {line[:160]}\n" for line in told.splitlines()), end="")
    check(child.returncode == 0, f"{script.name} ended with exit code {child.returncode}")
    check(took < LIMIT, f"{script.name} took {took:.1f} s of at most {LIMIT} s")


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def environment(name, packages, folder):
    """The programs that the transcript may use, and no switchyard. What clients write stays in the folder."""
    tools, peers = folder / "tools", pathlib.Path(os.environ["SWITCHYARD_PEERS"])
    tools.mkdir()
    for program in PROGRAMS + NEEDS[name]:
        given = {"claude": peers / "bin/claude", "node": peers / "bin/node", "python3": sys.executable}
        place = given.get(program) or shutil.which(program)
        check(place and pathlib.Path(place).exists(), f"{program} is missing")
        (tools / program).symlink_to(place)
    return {
        **os.environ,
        "PATH": str(tools),
        "PACKAGES": str(packages.folder),
        "PORT": str(free_port()),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "XDG_STATE_HOME": str(folder / "state"),
        "PS4": "$ ",
    }


CHECKS = tuple(transcript(script) for script in sorted((HERE / "transcripts").glob("*.sh")))
