"""No kill of the process loses a response whose commit returned."""

import asyncio
import random
import subprocess
import sys

import pytest

from bascule.state.sql import open_store
from tests.state.database import is_sound
from tests.state.rows import listed

pytestmark = pytest.mark.anyio

WRITE = """
import asyncio, sys
from bascule.state.sql import open_store
from tests.state.rows import a_turn, an_item, commit

async def worker(store):
    row = None
    while True:
        parent = row if row and len(row.history) < 20 else None
        row = await commit(store, a_turn(parent, input=[an_item(data=bytes(3_000))]))
        sys.stdout.write(row.id + "\\n")
        sys.stdout.flush()

async def main(url):
    store = await open_store(url)
    await asyncio.gather(*(worker(store) for _ in range(8)))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.timeout(180)
async def test_kill_9_loses_nothing_that_was_committed(shared_url: str) -> None:
    told: set[str] = set()
    for seed in range(4):
        # At once, or after checkpoints have begun: a random number of commits into the work.
        told |= await asyncio.to_thread(_write_until_killed, shared_url, random.Random(seed))
    assert is_sound(shared_url)
    store = await open_store(shared_url)
    for response_id in told:
        row = await store.response("alice", response_id)
        assert row is not None
        assert len(await store.items("alice", listed(row))) == len(listed(row))
    await store.aclose()


def _write_until_killed(url: str, chance: random.Random) -> set[str]:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = {process.stdout.readline() for _ in range(chance.randrange(1, 1_000))}
        process.kill()
        # What it had said before it died; a line that the kill cut short was not said.
        told.update(process.stdout.readlines())
    assert "" not in told
    return {line[:-1] for line in told if line.endswith("\n")}
