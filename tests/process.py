"""The `bascule` command as a process of its own, bounded in time and cut off from the machine."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 30.0
ROOT = Path(__file__).parents[1]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the machine's own: no proxies, no keys, no configuration."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "PYTHONUNBUFFERED": "1", **more}


@dataclass
class Running:
    """A process that has said its first line."""

    process: "subprocess.Popen[str]"
    home: Path
    first: str = ""
    lines: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        prefix = "listening on "
        assert self.first.startswith(prefix), f"{self.first!r}, stderr: {self.stderr}"
        return self.first.removeprefix(prefix).strip()

    @property
    def stderr(self) -> str:
        return (self.home / "stderr").read_text()

    def readline(self) -> str:
        """The next line of stdout; empty at its end."""
        assert self.process.stdout is not None
        with self._bounded():
            line = self.process.stdout.readline()
        self.lines.append(line)
        return line

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and give the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self.process.stdout is not None
        with self._bounded():
            self.lines += self.process.stdout.readlines()
            return self.process.wait()

    @contextmanager
    def _bounded(self) -> Generator[None]:
        timer = threading.Timer(LIMIT, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def running(
    home: Path, *command: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Generator[Running]:
    """A long-lived command; `home` keeps what it writes. It has ended when this is left."""
    with (home / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=cwd or home,
            env=environment(home, **(env or {})),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    child = Running(process, home)
    try:
        child.first = child.readline()
        yield child
    finally:
        if process.poll() is None:
            process.kill()
        child.wait()
        assert process.stdout is not None
        process.stdout.close()


def bascule(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bascule.cli", *arguments]


@contextmanager
def gateway(home: Path, *arguments: str, env: dict[str, str] | None = None) -> Generator[Running]:
    """`bascule serve` on a free port with its state in `home`."""
    state = f"sqlite:///{home / 'state.db'}"
    command = bascule("serve", "--port", "0", "--state", state, *arguments)
    with running(home, *command, env=env) as child:
        yield child


def call(
    home: Path, *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A `bascule` command that ends by itself."""
    return finished(home, bascule(*arguments), env=env)


def finished(
    home: Path,
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """A command that ends by itself."""
    return subprocess.run(
        command,
        cwd=cwd or home,
        env=environment(home, **(env or {})),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
