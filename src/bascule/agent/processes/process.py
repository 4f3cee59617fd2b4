"""One process of a command, with its output read as it comes."""

import asyncio
import contextlib
import fcntl
import os
import secrets
import signal
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, cast

from bascule.agent.processes.output import Printing
from bascule.services.sandbox import Prepared

Streams = Literal["merged", "separate", "terminal"]
"""How it is connected: both outputs as one, each for itself, or a terminal of its own."""
Heard = Callable[[bytes], None]

MARK: Final = "BASCULE_COMMAND"
"""A variable by which processes are known that a command has left behind."""
_DRAIN_SECONDS: Final = 0.2
"""For output that is under way when the process has ended; what it has left behind may hold it open."""
_GRACE_SECONDS: Final = 1.0
"""To end by itself when it is told to."""
_LOOK_SECONDS: Final = 0.01
_LOOKS: Final = 100
_SIZE: Final = struct.pack("HHHH", 40, 120, 0, 0)


class Process:
    """Made by `start`. `ended` is set when it has ended and its output is there."""

    def __init__(self, mark: str, kept: int, heard: Heard | None) -> None:
        self._mark: Final = mark
        self._heard = heard
        self._transport: asyncio.SubprocessTransport | None = None
        self._terminal: asyncio.ReadTransport | None = None
        self._input: int | None = None
        self._open = 0
        self._drain: asyncio.TimerHandle | None = None
        self.printing: Final = Printing(kept)
        self.errors: Final = Printing(kept)
        """What it prints as errors, where that is kept apart."""
        self.ended: Final = asyncio.Event()
        self.exit_code: int | None = None
        """128 and the signal's number for one that a signal has ended."""

    @property
    def interactive(self) -> bool:
        """Whether somebody can write to it."""
        return self._input is not None

    def listen(self, heard: Heard | None) -> None:
        """Who is told of what it prints, besides its being kept."""
        self._heard = heard

    # --- input

    def write(self, data: bytes) -> bool:
        """Type into its terminal; False if nobody reads there any more."""
        if self._input is None:
            return False
        try:
            while data:
                data = data[os.write(self._input, data) :]
        except BlockingIOError:
            return False
        except OSError:
            return False
        return True

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self._signal(signal.SIGINT)

    # --- the end

    async def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        return self.ended.is_set()

    async def stop(self) -> None:
        """End it and all that it has started, by force if need be."""
        if not self.ended.is_set():
            self._signal(signal.SIGTERM)
            if not await self.wait(_GRACE_SECONDS):
                self._signal(signal.SIGKILL)
        await end_marked(self._mark)
        if not await self.wait(_GRACE_SECONDS):
            self._finish()

    def _signal(self, number: int) -> None:
        pid = None if self._transport is None else self._transport.get_pid()
        if pid is None or self.exit_code is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)

    # --- what the loop says

    def began(self, transport: asyncio.SubprocessTransport, streams: int) -> None:
        self._transport = transport
        self._open += streams

    def has_terminal(self, terminal: asyncio.ReadTransport, input_: int) -> None:
        self._terminal, self._input = terminal, input_
        self._open += 1

    def printed(self, stream: int, data: bytes) -> None:
        (self.errors if stream == 2 else self.printing).add(data)
        if self._heard is not None:
            self._heard(data)

    def stream_ended(self) -> None:
        self._open -= 1
        if self._open <= 0 and self.exit_code is not None:
            self._finish()

    def exited(self) -> None:
        code = None if self._transport is None else self._transport.get_returncode()
        self.exit_code = 128 - code if code is not None and code < 0 else code or 0
        if self._open <= 0:
            self._finish()
        else:
            self._drain = asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._finish)

    def _finish(self) -> None:
        if self._drain is not None:
            self._drain.cancel()
        if self.exit_code is None:
            self.exit_code = 128 + signal.SIGKILL
        if self._terminal is not None:
            self._terminal.close()
        if self._input is not None:
            os.close(self._input)
            self._input = None
        if self._transport is not None:
            self._transport.close()
        self.ended.set()


async def start(
    prepared: Prepared,
    streams: Streams = "merged",
    *,
    kept: int = 1024 * 1024,
    heard: Heard | None = None,
    mark: str | None = None,
) -> Process:
    """Start a command in a session of its own; `prepared` is released. `kept` bytes of each output are
    kept until they are taken. Without a terminal its standard input is empty. What it starts bears its
    `mark`, wherever it goes.

    Raises OSError.
    """
    mark = mark or secrets.token_hex(8)
    process = Process(mark, kept, heard)
    env = {**prepared.env, MARK: mark}
    try:
        if streams == "terminal":
            await _start_with_terminal(process, prepared, env)
        else:
            await _start_with_pipes(process, prepared, env, apart=streams == "separate")
    finally:
        prepared.release()
    return process


class _Pipes(asyncio.SubprocessProtocol):
    def __init__(self, process: Process, streams: int) -> None:
        self._process = process
        self._streams = streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process.began(cast("asyncio.SubprocessTransport", transport), self._streams)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        self._process.printed(fd, cast("bytes", data))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._process.stream_ended()

    def process_exited(self) -> None:
        self._process.exited()


async def _start_with_pipes(
    process: Process, prepared: Prepared, env: dict[str, str], *, apart: bool
) -> None:
    await asyncio.get_running_loop().subprocess_exec(
        lambda: _Pipes(process, 2 if apart else 1),
        *prepared.argv,
        cwd=prepared.cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if apart else asyncio.subprocess.STDOUT,
        pass_fds=prepared.fds,
        start_new_session=True,
    )


class _Terminal(asyncio.Protocol):
    def __init__(self, process: Process) -> None:
        self._process = process

    def data_received(self, data: bytes) -> None:
        self._process.printed(1, data)

    def connection_lost(self, exc: Exception | None) -> None:
        # Linux says EIO when the last process has closed its side.
        self._process.stream_ended()


async def _start_with_terminal(process: Process, prepared: Prepared, env: dict[str, str]) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, _SIZE)
        input_ = os.dup(ours)
        terminal, _ = await loop.connect_read_pipe(
            lambda: _Terminal(process), os.fdopen(ours, "rb", buffering=0)
        )
        process.has_terminal(terminal, input_)
        await loop.subprocess_exec(
            lambda: _Pipes(process, 0),
            *prepared.argv,
            cwd=prepared.cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            pass_fds=prepared.fds,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
    finally:
        os.close(theirs)


def _take_terminal() -> None:
    """Runs in the child: its session has the terminal, so that Ctrl-C reaches it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def end_marked(mark: str) -> None:
    """Kill all that bears a mark, until there is nothing more."""
    for _ in range(_LOOKS):
        if not kill_marked(mark):
            return
        await asyncio.sleep(_LOOK_SECONDS)  # some may have been starting others meanwhile


def kill_marked(mark: str) -> int:
    """How many there were."""
    pids = marked(mark)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def marked(mark: str) -> list[int]:
    """Processes that bear a mark, or one that begins with it and a dot: those, too, that went their own
    way."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().split(b"\0")
            if any(word == wanted or word.startswith(wanted + b".") for word in words):
                found.append(int(path.parent.name))
        except (OSError, ValueError):
            continue
    return found
