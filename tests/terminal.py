"""A program in a real terminal: tmux draws the screen, a test reads it and types."""

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

LIMIT = 30.0


class Terminal:
    """One tmux server with one window, on a socket of its own."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]

    def tmux(self, *args: str) -> str:
        done = subprocess.run(
            [*self._tmux, *args], capture_output=True, text=True, check=False, timeout=10
        )
        return done.stdout

    def screen(self, *, colours: bool = False) -> str:
        """All that was shown, scrolled off lines included."""
        more = ["-e"] if colours else []
        return self.tmux("capture-pane", "-p", "-J", "-S", "-", *more)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def key(self, *names: str) -> None:
        """`Enter`, `C-c`."""
        self.tmux("send-keys", *names)

    async def until(self, wanted: str | Callable[[str], bool]) -> str:
        """Wait for a text on the screen; the whole screen."""
        shown = ""
        try:
            async with asyncio.timeout(LIMIT):
                while True:
                    shown = await asyncio.to_thread(self.screen)
                    if wanted(shown) if callable(wanted) else wanted in shown:
                        return shown
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"never shown: {wanted!r}\n{shown}") from None


@asynccontextmanager
async def terminal(
    command: Sequence[str], *, cwd: Path, env: dict[str, str]
) -> AsyncGenerator[Terminal]:
    """The command, in a window of 100 columns; `[ended N]` is shown at its end."""
    folder = tempfile.mkdtemp(prefix="bascule-tmux-")  # a socket's path has to be short
    it = Terminal(Path(folder) / "socket")
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    # The shell around it stays when Ctrl-C is typed.
    script = f"trap : INT; env -i TERM=$TERM {given} {shlex.join(command)}; echo [ended $?]; exec sleep 1000"
    subprocess.run(
        [
            *it._tmux,
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "50",
            "-c",
            str(cwd),
            "sh",
            "-c",
            script,
        ],
        check=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    try:
        yield it
    finally:
        it.tmux("kill-server")
        shutil.rmtree(folder, ignore_errors=True)
