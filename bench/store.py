"""CPU per committed turn, of the whole process, beside plain sqlite3 doing the same in one thread.

    .venv/bin/python bench/store.py [--turns N] [--concurrency 1,32]

A turn is one response row with a 1.5 kB snapshot and two items of 1 kB.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

from bascule.protocols.ids import mint
from bascule.state.sql import open_store
from bascule.state.store import Commit, ItemRow, ResponseRow, Store

SNAPSHOT = b'{"output":[],"text":"' + b"s" * 1480 + b'"}'
DATA = b'{"text":"' + b"d" * 990 + b'"}'


def a_turn(parent: ResponseRow | None = None) -> Commit:
    items = [ItemRow(key=mint("item"), id=mint("msg"), type="message", data=DATA) for _ in range(2)]
    row = ResponseRow(
        id=mint("resp"),
        owner="0" * 64,
        created_at=1_800_000_000,
        status="completed",
        model="some-model",
        previous_response_id=parent.id if parent else None,
        history=[*parent.history, *parent.input, *parent.output] if parent else [],
        input=[items[0].key],
        output=[items[1].key],
        snapshot=SNAPSHOT,
    )
    return Commit(response=row, items=items)


def report(name: str, count: int, cpu: float, wall: float) -> None:
    print(f"{name:44} {cpu / count * 1e6:8.0f} us CPU {wall / count * 1e6:8.0f} us wall")


async def committing(folder: Path, turns: list[Commit], concurrency: int) -> None:
    store = await open_store(f"sqlite:///{folder}/{concurrency}.sqlite3")
    queue = iter(turns)

    async def worker() -> None:
        for turn in queue:
            await store.commit(turn)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    report(f"store, {concurrency} concurrent turns", len(turns), cpu, wall)
    await store.aclose()


async def chain(folder: Path, length: int = 300) -> None:
    """A chain's last commits, and what its last turn reads."""
    path = folder / "chain.sqlite3"
    store = await open_store(f"sqlite:///{path}")
    row = None
    for index in range(length):
        if index == length - 20:
            cpu, wall = time.process_time(), time.perf_counter()
        turn = a_turn(row)
        await store.commit(turn)
        row = turn.response
    report(
        f"commit at the end of {length} turns",
        20,
        time.process_time() - cpu,
        time.perf_counter() - wall,
    )
    await rehydrating(store, row, length)
    await store.aclose()
    print(
        f"{'that chain on disk':44} {path.stat().st_size / 1024:8.0f} KiB ({length * 3.5:.0f} KiB of JSON)"
    )


async def rehydrating(store: Store, last: ResponseRow, length: int) -> None:
    rounds = 20
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(rounds):
        row = await store.response(last.owner, last.id)
        await store.items(last.owner, [*row.history, *row.input, *row.output])
    report(
        f"rehydration of {length} turns",
        rounds,
        time.process_time() - cpu,
        time.perf_counter() - wall,
    )


def plain(folder: Path, turns: list[Commit], group: int) -> None:
    """What the driver alone takes: same settings, tables and indexes; no check, no thread."""
    path = folder / f"plain-{group}.sqlite3"

    async def make() -> None:
        store = await open_store(f"sqlite:///{path}")
        await store.aclose()

    asyncio.run(make())
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous = NORMAL", "foreign_keys = ON", "wal_autocheckpoint = 4000"):
        database.execute(f"PRAGMA {pragma}")
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, len(turns), group):
        batch = turns[start : start + group]
        database.execute("BEGIN IMMEDIATE")
        database.executemany(
            "INSERT INTO responses VALUES (?, ?, ?, ?, ?, NULL, NULL, x'', ?, ?, ?, ?, 0)",
            [
                (
                    *(r.id, r.owner, r.created_at, r.status, r.model),
                    *(r.input[0].encode(), r.output[0].encode(), r.snapshot, r.state),
                )
                for r in (turn.response for turn in batch)
            ],
        )
        database.executemany(
            "INSERT INTO items VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(i.key, i.id, turn.response.owner, i.type, i.data, i.origin),
                    *(turn.response.id, turn.response.created_at),
                )
                for turn in batch
                for i in turn.items
            ],
        )
        database.execute("COMMIT")
    report(
        f"plain sqlite3, {group} a transaction",
        len(turns),
        time.process_time() - cpu,
        time.perf_counter() - wall,
    )
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9600)
    parser.add_argument("--concurrency", default="1,8,32,128")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        for concurrency in map(int, options.concurrency.split(",")):
            turns = [a_turn() for _ in range(options.turns)]
            asyncio.run(committing(folder, turns, concurrency))
            plain(folder, [a_turn() for _ in range(options.turns)], min(concurrency, 64))
        asyncio.run(chain(folder))


if __name__ == "__main__":
    main()
