"""CPU per committed turn, of the whole process, beside plain sqlite3 doing the same in one thread.

    .venv/bin/python bench/store.py [--turns N] [--concurrency 1,32] [--postgres [--repeat N]]

A turn is one response row with a 1.5 kB snapshot and two items of 1 kB. With --postgres the same turns
go to a PostgreSQL server of the bench's own, whose processes are not counted; the goal is 1.5 times
SQLite's CPU.
"""

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from bascule.protocols.ids import mint
from bascule.state.sql import open_store
from bascule.state.store import Commit, ItemRow, ResponseRow, Store

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import postgres

POSTGRES_GOAL = 1.5
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


async def committing(url: str, turns: list[Commit], concurrency: int) -> float:
    """us CPU per turn."""
    store = await open_store(url)
    queue = iter(turns)

    async def worker() -> None:
        for turn in queue:
            await store.commit(turn)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    report(f"{kind(url)}, {concurrency} concurrent turns", len(turns), cpu, wall)
    await store.aclose()
    return cpu / len(turns)


async def continuing(url: str, count: int, concurrency: int) -> float:
    """us CPU per turn of short chains, each turn read and continued by the next, as a gateway does."""
    store = await open_store(url)
    left = iter(range(count))

    async def worker() -> None:
        row = None
        for index in left:
            if row is not None:
                row = await store.response(row.owner, row.id)
                await store.items(row.owner, [*row.history, *row.input, *row.output])
            turn = a_turn(row if index % 8 else None)
            await store.commit(turn)
            row = turn.response

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    report(f"{kind(url)}, {concurrency} chains", count, cpu, wall)
    await store.aclose()
    return cpu / count


async def chain(url: str, length: int = 300) -> None:
    """A chain's last commits, and what its last turn reads."""
    store = await open_store(url)
    row = None
    for index in range(length):
        if index == length - 20:
            cpu, wall = time.process_time(), time.perf_counter()
        turn = a_turn(row)
        await store.commit(turn)
        row = turn.response
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    report(f"{kind(url)}, commit at the end of {length} turns", 20, cpu, wall)
    await rehydrating(kind(url), store, row, length)
    await store.aclose()
    if kind(url) == "sqlite":
        size = Path(url.removeprefix("sqlite:///")).stat().st_size / 1024
        print(f"{'that chain on disk':44} {size:8.0f} KiB ({length * 3.5:.0f} KiB of JSON)")


def kind(url: str) -> str:
    return url.partition(":")[0]


async def rehydrating(name: str, store: Store, last: ResponseRow, length: int) -> None:
    rounds = 20
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(rounds):
        row = await store.response(last.owner, last.id)
        await store.items(last.owner, [*row.history, *row.input, *row.output])
    report(
        f"{name}, rehydration of {length} turns",
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


def postgres_beside(folder: Path, options: argparse.Namespace, server: str) -> list[str]:
    """Both in turns, in one run; what missed the goal."""
    missed = []
    for concurrency in map(int, options.concurrency.split(",")):
        for name, run in (("turns", commits), ("chains", chains)):
            ratios = []
            for number in range(options.repeat):
                ours = f"sqlite:///{folder}/{name}-{concurrency}-{number}.sqlite3"
                theirs = postgres.create_database(server)
                base = run(ours, options.turns, concurrency)
                ratios.append(run(theirs, options.turns, concurrency) / base)
                postgres.drop_database(server, theirs)
            ratio = statistics.median(ratios)
            print(f"PostgreSQL's CPU beside SQLite's, {concurrency} {name}: {ratio:.2f}")
            if ratio > POSTGRES_GOAL:
                missed.append(f"{concurrency} {name}")
    return missed


def commits(url: str, turns: int, concurrency: int) -> float:
    return uvloop.run(committing(url, [a_turn() for _ in range(turns)], concurrency))


def chains(url: str, turns: int, concurrency: int) -> float:
    return uvloop.run(continuing(url, turns, concurrency))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9600)
    parser.add_argument("--concurrency", default="1,8,32,128")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--postgres", action="store_true", help="beside SQLite; starts a server")
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        if options.postgres:
            server = postgres.Server()
            try:
                server.start()
                missed = postgres_beside(folder, options, server.url)
                uvloop.run(chain(postgres.create_database(server.url)))
            finally:
                server.remove()
        else:
            for concurrency in map(int, options.concurrency.split(",")):
                commits(f"sqlite:///{folder}/{concurrency}.sqlite3", options.turns, concurrency)
                plain(folder, [a_turn() for _ in range(options.turns)], min(concurrency, 64))
        uvloop.run(chain(f"sqlite:///{folder}/chain.sqlite3"))
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
