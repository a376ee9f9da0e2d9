"""A terminal of a person: a shell inside of tmux, keys in, the screen out.

Invariant: tmux and all that runs in it end with the `with` block. Files are below the folder of the test, `HOME` too.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from checks import Wrong

#: How long a screen is waited for, in seconds.
PATIENCE = 15.0
PROMPT = "$ "


class Terminal:
    """One window of tmux with a shell."""

    def __init__(self, home: Path, path: str, size: tuple[int, int] = (80, 24)) -> None:
        self.home, self.size = home, size
        home.mkdir(parents=True, exist_ok=True)
        shell = f"exec env -i HOME={home} PATH={path} TERM=$TERM PS1='{PROMPT}' bash --norc --noprofile"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(home), shell)
        self.see(PROMPT.strip())

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._tmux("kill-server", check=False)

    def _tmux(self, *words: str, check: bool = True) -> str:
        environment = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(self.home), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["tmux", *words], env=environment, capture_output=True, text=True, timeout=PATIENCE)
        if check and done.returncode != 0:
            raise Wrong(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Presses keys: a letter, or a name of tmux such as `Enter`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Types a text and Enter."""
        self._tmux("send-keys", "-l", text)
        self.keys("Enter")

    def screen(self, colors: bool = False) -> str:
        """What is on the screen; with the sequences of its colors if wanted. A line that was too wide is one line."""
        return self._tmux("capture-pane", "-p", "-J", *(["-e"] if colors else []))

    def rows(self) -> list[str]:
        """The lines of the screen as they are."""
        return self._tmux("capture-pane", "-p").splitlines()

    def see(self, *texts: str, patience: float = PATIENCE) -> str:
        """Waits until all these texts are on the screen."""
        return self.wait(lambda screen: all(text in screen for text in texts), " and ".join(map(repr, texts)), patience)

    def wait(self, holds: Callable[[str], bool], what: str, patience: float = PATIENCE) -> str:
        """Waits for a screen, and returns it."""
        deadline = time.monotonic() + patience
        while not holds(screen := self.screen()):
            if time.monotonic() > deadline:
                raise Wrong(f"not seen within {patience:.0f} s: {what}. The screen:\n{screen}")
            time.sleep(0.05)
        return screen

    def start(self, command: str) -> None:
        """Clears the screen, and types a command. The exit code of the last one stays."""
        self.keys("C-l")
        self.wait(lambda screen: screen.strip() == PROMPT.strip(), "an empty screen")
        self.type(command)

    def run(self, command: str, *texts: str) -> str:
        """Clears the screen, types a command, and waits for its end and these texts."""
        self.start(command)
        return self.end(*texts)

    def end(self, *texts: str) -> str:
        """Waits for the end of a command and these texts."""

        def is_over(screen: str) -> bool:
            lines = screen.split("\n")
            lines = [line.rstrip() for line in lines if line.strip()]
            return len(lines) > 1 and lines[-1] == PROMPT.strip() and all(text in screen for text in texts)

        return self.wait(is_over, f"the end of the command with {texts}")

    def code(self) -> int:
        """The exit code of the last command."""
        screen = self.run("echo code=$?=")
        return int([line for line in screen.splitlines() if line.startswith("code=")][-1].split("=")[1])

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))
        self.size = (columns, lines)
