"""Processes: started in every way, and ended for certain."""

import asyncio
import os
import resource
import sys
import time
from pathlib import Path

import pytest

from bascule.agent.processes.commands import Commands, TooMany
from bascule.agent.processes.output import Cleaner, shown
from bascule.agent.processes.process import MARK, Process, Streams, marked, start
from bascule.services.sandbox import Prepared

pytestmark = pytest.mark.anyio


def prepared(*argv: str) -> Prepared:
    return Prepared(argv=argv, cwd=Path("/"), env=dict(os.environ))


async def sh(script: str, streams: Streams = "merged") -> Process:
    return await start(prepared("sh", "-c", script), streams)


def text(process: Process) -> str:
    return shown(process.printing.take(), Cleaner(), 10_000, last=True)


def alive(command: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command in path.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                return True
        except OSError:
            continue
    return False


async def test_output_and_exit_code() -> None:
    process = await sh("echo out; echo err >&2; exit 3")
    assert await process.wait(10)
    assert (text(process), process.exit_code) == ("out\nerr\n", 3)


async def test_outputs_kept_apart() -> None:
    process = await sh("echo out; echo err >&2; kill -9 $$", "separate")
    assert await process.wait(10)
    assert text(process) == "out\n"
    assert shown(process.errors.take(), Cleaner(), 100, last=True) == "err\n"
    assert process.exit_code == 137


@pytest.mark.requirement("exec:stdin")
async def test_without_a_terminal_its_input_is_empty() -> None:
    process = await sh("cat; test -t 0 || echo no terminal")
    assert await process.wait(10)
    assert text(process) == "no terminal\n"
    assert not process.interactive
    assert not process.write(b"x")


@pytest.mark.requirement("exec:terminal")
async def test_a_terminal_can_be_written_to_and_interrupted() -> None:
    script = "test -t 1 && stty size; read name; echo hello $name; trap 'echo int; exit 4' INT; echo go; while :; do sleep 0.05; done"
    process = await sh(script, "terminal")
    assert process.write(b"you\n")
    async with asyncio.timeout(10):
        while b"go" not in bytes(process.printing._head):
            await asyncio.sleep(0.01)
    assert process.write(b"\x03")
    assert await process.wait(10)
    said = text(process)
    assert "40 120\n" in said
    assert "hello you\ngo\n" in said
    assert process.exit_code == 4
    assert not process.write(b"x")


async def test_it_can_be_interrupted_without_a_terminal() -> None:
    process = await sh("trap 'echo int; exit 5' INT; echo go; while :; do sleep 0.05; done")
    async with asyncio.timeout(10):
        while not process.printing.size:
            await asyncio.sleep(0.01)
    process.interrupt()
    assert await process.wait(10)
    assert (text(process), process.exit_code) == ("go\nint\n", 5)


@pytest.mark.requirement("exec:left_behind")
async def test_what_it_leaves_behind_does_not_hold_it_up() -> None:
    began = time.monotonic()
    process = await sh("(sleep 71.5 &) ; echo done")
    assert await process.wait(10)
    assert time.monotonic() - began < 5
    assert text(process) == "done\n"
    assert alive("sleep 71.5")
    await process.stop()
    assert not alive("sleep 71.5")


@pytest.mark.parametrize("streams", ["merged", "terminal"])
@pytest.mark.requirement("exec:ended")
async def test_one_that_ignores_signals_and_hides_is_ended(streams: Streams) -> None:
    script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; sleep 72.5' & echo up; while :; do sleep 0.05; done"
    process = await sh(script, streams)
    async with asyncio.timeout(10):
        while not (process.printing.size and alive("sleep 72.5")):
            await asyncio.sleep(0.01)
    async with asyncio.timeout(10):
        await process.stop()
    assert process.exit_code == 137
    assert not alive("sleep 72.5")


@pytest.mark.requirement("exec:forks")
async def test_many_children_are_ended() -> None:
    script = "for i in $(seq 50); do (setsid sleep 73.5 &) ; done; echo up; sleep 73.5"
    process = await sh(script)
    async with asyncio.timeout(10):
        while not process.printing.size:
            await asyncio.sleep(0.01)
    await process.stop()
    assert not alive("sleep 73.5")


@pytest.mark.requirement("exec:flood")
async def test_a_flood_does_not_fill_the_memory() -> None:
    script = """
import os
block = b"x" * 1048576
for _ in range(1024):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""
    before = _resident()
    process = await start(prepared(sys.executable, "-c", script))
    most = before
    async with asyncio.timeout(55):
        while not await process.wait(0.1):
            most = max(most, _resident())
    taken = process.printing.take()
    assert taken.size == 1024**3
    assert len(taken.head) + len(taken.tail) == 1024**2
    assert most - before < 100 * 1024**2


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_processes_are_found_by_their_mark() -> None:
    process = await sh(f"echo ${MARK}; sleep 60")
    async with asyncio.timeout(10):
        while not process.printing.size:
            await asyncio.sleep(0.01)
    mark = bytes(process.printing._head).decode().strip()
    assert len(marked(mark)) == 2
    await process.stop()
    assert marked(mark) == []


async def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        await start(prepared("no-such-program"))
    with pytest.raises(OSError, match="no-such-program"):
        await start(prepared("no-such-program"), "terminal")


@pytest.mark.requirement("exec:cap")
async def test_no_more_run_than_may_and_none_is_left() -> None:
    commands = Commands(limit=2)
    first = await commands.start(prepared("sleep", "74.5"), "merged")
    await commands.start(prepared("sleep", "74.5"), "merged")
    with pytest.raises(TooMany, match="2 commands run already"):
        await commands.start(prepared("true"), "merged")
    await first.process.stop()
    commands.forget(first)
    assert (commands.get(1), commands.exit_code_of(1)) == (None, 143)
    third = await commands.start(prepared("sleep", "74.5"), "terminal")
    assert third.number == 3
    await commands.aclose()
    assert len(commands) == 0
    assert not alive("sleep 74.5")
