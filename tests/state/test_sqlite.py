"""What is SQLite's own: URLs, files, locks, and processes that share a file."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from bascule.state.sql import open_store
from bascule.state.store import Store, StoreError
from tests.state.database import foreign, is_sound
from tests.state.rows import a_turn, an_item, commit, whole

pytestmark = pytest.mark.anyio


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_makes_private_folders_and_files(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state.sqlite3"
    before = os.umask(0)
    try:
        store = await open_store(f"sqlite:///{path}")
        await store.commit(a_turn())
        made = sorted(path.parent.iterdir())
        assert [file.name for file in made] == [path.name + end for end in ("", "-shm", "-wal")]
        assert {mode(file) for file in made} == {0o600}
        assert mode(path.parent) == mode(path.parent.parent) == 0o700
        await store.aclose()
    finally:
        os.umask(before)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_leaves_the_mode_of_what_was_there(path: Path) -> None:
    path.parent.chmod(0o755)
    path.touch(0o640)
    store = await open_store(f"sqlite:///{path}")
    await store.aclose()
    assert (mode(path), mode(path.parent)) == (0o640, 0o755)


async def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = await open_store("sqlite:///here.sqlite3")
    monkeypatch.chdir("/")
    row = await commit(store, a_turn())
    assert await whole(store, row)
    await store.aclose()
    assert (tmp_path / "here.sqlite3").stat().st_size


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://user:s3cret@db.example/name",
        "sqlite+aiosqlite:///file.sqlite3?key=s3cret",
        "sqlite://user:s3cret@host/file.sqlite3",
        "sqlite:///file.sqlite3?unknown=s3cret",
        "sqlite:///file.sqlite3?timeout=s3cret",
        "nonsense:s3cret",
        "mysql://user:s3cret@host:port/s3cret",
        "",
    ],
)
async def test_another_url_is_an_error_that_keeps_its_secret(url: str) -> None:
    with pytest.raises(ValueError, match=r"database URL|no state storage|unknown option") as raised:
        await open_store(url)
    assert "s3cret" not in str(raised.value)


async def test_the_error_names_the_url() -> None:
    with pytest.raises(ValueError, match=r"mysql://user:\*\*\*@db\.example/name"):
        await open_store("mysql://user:s3cret@db.example/name")


async def test_reopening_finds_everything(path: Path) -> None:
    rows = []
    for _ in range(3):
        store = await open_store(f"sqlite:///{path}")
        rows.append(await commit(store, a_turn(rows[-1] if rows else None)))
        assert all([await whole(store, row) for row in rows])
        await store.aclose()
    assert is_sound(path)


async def test_concurrent_commits_share_transactions(file_store: Store) -> None:
    commits: list[sa.Connection] = []

    def committed(connection: sa.Connection) -> None:
        commits.append(connection)

    event.listen(sa.Engine, "commit", committed)
    try:
        await asyncio.gather(*(file_store.commit(a_turn()) for _ in range(320)))
    finally:
        event.remove(sa.Engine, "commit", committed)
    assert 1 <= len(commits) <= 10


async def test_two_stores_share_a_file(path: Path) -> None:
    first, second = await asyncio.gather(*(open_store(f"sqlite:///{path}") for _ in range(2)))
    turns = [a_turn() for _ in range(60)]
    await asyncio.gather(
        *((first, second)[index % 2].commit(turn) for index, turn in enumerate(turns))
    )
    assert all([await whole(store, turn.response) for turn in turns for store in (first, second)])
    assert await second.delete_response("alice", turns[0].response.id)
    assert await first.response("alice", turns[0].response.id) is None
    await first.aclose()
    await second.aclose()
    assert is_sound(path)


async def test_a_lock_that_stays_is_an_error_in_time(path: Path) -> None:
    store = await open_store(f"sqlite:///{path}?timeout=0.3")
    with foreign(path) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        outcomes = await asyncio.gather(
            *(store.commit(a_turn()) for _ in range(20)), return_exceptions=True
        )
        waited = time.monotonic() - started
        assert all(isinstance(outcome, StoreError) for outcome in outcomes)
        assert "locked" in str(outcomes[0])
        assert 0.3 <= waited < 5  # once for the group, not by each turn
        assert await store.response("alice", "resp_1") is None  # who reads does not wait
        other.execute("ROLLBACK")
    assert await whole(store, await commit(store, a_turn()))
    await store.aclose()


async def test_a_lock_that_goes_is_waited_for(file_store: Store, path: Path) -> None:
    with foreign(path) as other:
        other.execute("BEGIN IMMEDIATE")
        turn = a_turn()
        waiting = asyncio.create_task(file_store.commit(turn))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        other.execute("COMMIT")
    await waiting
    assert await whole(file_store, turn.response)


async def test_writing_blocks_neither_the_loop_nor_readers(file_store: Store, path: Path) -> None:
    row = await commit(file_store, a_turn())
    with foreign(path) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(file_store.commit(a_turn()))
        assert all(await asyncio.gather(*(whole(file_store, row) for _ in range(20))))
        assert not waiting.done()
        other.execute("COMMIT")
    await waiting


async def test_a_turn_too_big_for_the_database_fails_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def limited(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    store = await open_store(f"sqlite:///{path}")
    turns = [a_turn() for _ in range(9)]
    turns[4] = a_turn(input=[an_item(data=b"x" * 200_000)])
    outcomes = await asyncio.gather(*(store.commit(turn) for turn in turns), return_exceptions=True)
    assert isinstance(outcomes[4], StoreError)
    assert "too big" in str(outcomes[4])
    for index in set(range(9)) - {4}:
        assert await whole(store, turns[index].response)
    await store.aclose()


async def test_no_content_in_an_error(file_store: Store) -> None:
    with pytest.raises(StoreError) as raised:
        await file_store.commit(a_turn(input=[an_item("\ud83d", data=b"private words")]))
    cause: BaseException | None = raised.value
    while cause is not None:
        assert "private words" not in str(cause)
        cause = cause.__cause__ or cause.__context__


async def test_leaves_no_thread_behind(path: Path) -> None:
    before = set(threading.enumerate())
    for url in (f"sqlite:///{path}", "sqlite://"):
        store = await open_store(url)
        rows = [await commit(store, a_turn()) for _ in range(4)]
        assert all(await asyncio.gather(*(whole(store, row) for row in rows)))
        assert set(threading.enumerate()) > before
        await store.aclose()
    assert set(threading.enumerate()) == before


async def test_a_file_that_is_no_database_is_an_error(path: Path) -> None:
    before = set(threading.enumerate())
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="not a database"):
        await open_store(f"sqlite:///{path}")
    with pytest.raises(StoreError):
        await open_store(f"sqlite:///{path}/below.sqlite3")
    assert set(threading.enumerate()) == before


async def test_an_abandoned_opening_leaves_nothing(path: Path) -> None:
    before = set(threading.enumerate())
    opening = asyncio.create_task(open_store(f"sqlite:///{path}"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()


FULL_DISK = """
import asyncio, resource, sys
from bascule.state.sql import open_store
from bascule.state.store import StoreError
from tests.state.rows import a_turn, an_item, commit, whole

async def main(url):
    store = await open_store(url)
    kept = await commit(store, a_turn())
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        for _ in range(50):
            await store.commit(a_turn(input=[an_item(data=bytes(20_000))]))
        sys.exit("nothing failed")
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    later = await commit(store, a_turn(kept))
    assert await whole(store, kept) and await whole(store, later)
    await store.aclose()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.timeout(180)
async def test_works_again_when_a_full_disk_has_room(path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", FULL_DISK, f"sqlite:///{path}"],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    assert "could not be used" in done.stdout
    assert is_sound(path)


async def test_a_file_that_is_taken_away_is_an_error_until_it_is_back(path: Path) -> None:
    store = await open_store(f"sqlite:///{path}")
    row = await commit(store, a_turn())
    away = path.with_name("away")
    path.rename(away)
    turn = a_turn(row)
    for _ in range(2):
        with pytest.raises(StoreError, match="unable to open"):
            await store.commit(turn)
        with pytest.raises(StoreError, match="unable to open"):
            await store.response("alice", row.id)
    assert not path.exists()
    away.rename(path)
    assert await whole(store, row)
    assert await whole(store, await commit(store, turn))
    await store.aclose()
    assert is_sound(path)


async def test_a_file_that_is_replaced_is_the_one_that_counts(path: Path) -> None:
    other = await open_store(f"sqlite:///{path}.other")
    theirs = await commit(other, a_turn())
    await other.aclose()
    store = await open_store(f"sqlite:///{path}")
    ours = await commit(store, a_turn())
    path.unlink()
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    path.with_name(path.name + ".other").rename(path)
    assert await store.response("alice", ours.id) is None
    assert await whole(store, theirs)
    row = await commit(store, a_turn(theirs))
    await store.aclose()
    store = await open_store(f"sqlite:///{path}")
    assert await whole(store, row)
    await store.aclose()
    assert is_sound(path)


async def test_a_database_that_may_not_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    read_only = False

    def guarded(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        # What a remounted file system does: the tests may run as root, whom no mode stops.
        connection.set_authorizer(
            lambda action, *_: (
                sqlite3.SQLITE_DENY
                if read_only and action == sqlite3.SQLITE_INSERT
                else sqlite3.SQLITE_OK
            )
        )
        return connection

    store = await open_store(f"sqlite:///{path}")
    row = await commit(store, a_turn())
    await store.aclose()
    monkeypatch.setattr(sqlite3, "connect", guarded)
    store = await open_store(f"sqlite:///{path}")
    read_only = True
    outcomes = await asyncio.gather(
        *(store.commit(a_turn(row)) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(outcome, StoreError) for outcome in outcomes)
    assert await whole(store, row)
    read_only = False
    assert await whole(store, await commit(store, a_turn(row)))
    await store.aclose()
