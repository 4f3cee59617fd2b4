"""What is PostgreSQL's own: URLs, sockets, locks, a server that goes and comes back."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager

import asyncpg
import pytest

from bascule.state.postgres import Server
from bascule.state.postgres_writer import WRITE_LOCK
from bascule.state.sql import check_url, open_store
from bascule.state.store import Store, StoreError
from tests import postgres
from tests.state.rows import a_turn, an_item, commit, whole

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def own_server() -> Iterator[postgres.Server]:
    """A server that a test may stop and start."""
    server = postgres.Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
async def pg_store(postgres_url: str) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await open_store(postgres_url)
    yield opened
    await opened.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user:s3cret@db.example/name",
        "postgresql+asyncpg://user:s3cret@db.example/name",
        "postgresql://user:s3cret@db.example/name?unknown=s3cret",
        "postgresql://user:s3cret@db.example/name?timeout=s3cret",
        "postgresql://user:s3cret@db.example/name?connect_timeout=s3cret",
        "postgresql://user:s3cret@db.example/name?sslmode=s3cret",
        "postgresql://user:s3cret@db.example/name?sslmode=require&sslmode=disable",
        "postgresql://user:s3cret@host:port/s3cret",
        "postgres:s3cret",
    ],
)
def test_another_url_is_an_error_that_keeps_its_secret(url: str) -> None:
    expected = r"database URL|no state storage|unknown option|sslmode"
    with pytest.raises(ValueError, match=expected) as raised:
        check_url(url)
    assert "s3cret" not in str(raised.value)


def test_a_password_is_in_no_repr() -> None:
    server = Server.from_url("postgres://user:s3cret@db.example/name?sslpassword=s3cret&timeout=3")
    assert "s3cret" not in repr(server)
    assert server.name == "postgres://user:***@db.example/name"
    assert server.timeout == 3


async def test_a_wrong_password_is_an_error_that_keeps_it(own_server: postgres.Server) -> None:
    url = own_server.url.replace(postgres.PASSWORD, "another-s3cret")
    with pytest.raises(StoreError, match="password authentication failed") as raised:
        await open_store(url)
    assert "another-s3cret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
async def test_by_way_of_a_socket(own_server: postgres.Server, scheme: str) -> None:
    url = own_server.socket_url.replace("postgresql", scheme, 1)
    store = await open_store(url)
    assert await whole(store, await commit(store, a_turn()))
    await store.aclose()


async def test_a_server_without_tls_refuses_who_insists_on_it(own_server: postgres.Server) -> None:
    with pytest.raises(StoreError):
        await open_store(f"{own_server.url}?sslmode=require")
    store = await open_store(f"{own_server.url}?sslmode=disable")
    await store.aclose()


async def test_a_server_that_is_not_there() -> None:
    before = set(threading.enumerate())
    with pytest.raises(StoreError, match="could not be used") as raised:
        await open_store("postgresql://user:s3cret@127.0.0.1:1/name")
    assert "s3cret" not in str(raised.value)
    assert set(threading.enumerate()) == before


async def test_a_database_that_is_not_there(postgres_server: str) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        await open_store(postgres.database_url(postgres_server, "no_such_database"))


async def test_makes_its_tables_once(bare_postgres_url: str) -> None:
    stores = await asyncio.gather(*(open_store(bare_postgres_url) for _ in range(3)))
    rows = [await commit(store, a_turn()) for store in stores]
    assert all([await whole(stores[0], row) for row in rows])
    for store in stores:
        await store.aclose()


async def test_a_newer_database_is_refused(postgres_url: str) -> None:
    postgres.run(postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="9999"):
        await open_store(postgres_url)


async def test_a_lock_that_stays_is_an_error_in_time(postgres_url: str) -> None:
    store = await open_store(f"{postgres_url}?timeout=0.3")
    with _locked(postgres_url) as release:
        outcomes = await asyncio.gather(
            *(store.commit(a_turn()) for _ in range(20)), return_exceptions=True
        )
        assert all(isinstance(outcome, StoreError) for outcome in outcomes)
        assert "lock timeout" in str(outcomes[0])
        assert await store.response("alice", "resp_1") is None  # who reads does not wait
        release()
    assert await whole(store, await commit(store, a_turn()))
    await store.aclose()


async def test_a_lock_that_goes_is_waited_for(pg_store: Store, postgres_url: str) -> None:
    row = await commit(pg_store, a_turn())
    with _locked(postgres_url) as release:
        turn = a_turn(row)
        waiting = asyncio.create_task(pg_store.commit(turn))
        assert all(await asyncio.gather(*(whole(pg_store, row) for _ in range(20))))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        release()
        await waiting
    assert await whole(pg_store, turn.response)


async def test_two_stores_share_a_database(postgres_url: str) -> None:
    first, second = await asyncio.gather(*(open_store(postgres_url) for _ in range(2)))
    turns = [a_turn() for _ in range(60)]
    await asyncio.gather(
        *((first, second)[index % 2].commit(turn) for index, turn in enumerate(turns))
    )
    assert all([await whole(store, turn.response) for turn in turns for store in (first, second)])
    assert await second.delete_response("alice", turns[0].response.id)
    assert await first.response("alice", turns[0].response.id) is None
    await first.aclose()
    await second.aclose()


async def test_a_parent_that_another_store_deletes_meanwhile(postgres_url: str) -> None:
    first, second = await asyncio.gather(*(open_store(postgres_url) for _ in range(2)))
    for _ in range(30):
        parent = await commit(first, a_turn())
        child = a_turn(parent)
        outcomes = await asyncio.gather(
            first.commit(child),
            second.delete_response("alice", parent.id),
            return_exceptions=True,
        )
        assert outcomes[1] is True
        if outcomes[0] is None:
            assert await whole(second, child.response)
        else:
            assert "not stored" in str(outcomes[0])
            assert await second.response("alice", child.response.id) is None
    await first.aclose()
    await second.aclose()


async def test_connections_that_were_cut_are_made_anew(postgres_url: str) -> None:
    store = await open_store(postgres_url)
    row = await commit(store, a_turn())
    for _ in range(3):
        await asyncio.gather(*(whole(store, row) for _ in range(10)))
        postgres.run(postgres_url, _CUT)
        assert all(await asyncio.gather(*(whole(store, row) for _ in range(10))))
        row = await commit(store, a_turn(row))
        postgres.run(postgres_url, _CUT)
        row = await commit(store, a_turn(row))
    assert await whole(store, row)
    await store.aclose()


async def test_a_server_that_stops_and_starts_again(own_server: postgres.Server) -> None:
    url = postgres.create_database(own_server.url)
    store = await open_store(url)
    row = await commit(store, a_turn())
    own_server.stop()
    try:
        turn = a_turn(row)
        for refused in (
            store.commit(turn),
            store.response("alice", row.id),
            store.items("alice", row.input),
            store.find("alice", ["msg_1"]),
            store.delete_response("alice", row.id),
            store.expire(1, 1),
        ):
            with pytest.raises(StoreError, match="could not be used"):
                await refused
    finally:
        own_server.start()
    assert await whole(store, row)
    assert await store.response("alice", turn.response.id) is None
    assert await whole(store, await commit(store, turn))
    await store.aclose()


async def test_a_transaction_that_is_cut_in_the_middle_is_done_once(postgres_url: str) -> None:
    store = await open_store(f"{postgres_url}?timeout=20")
    with _locked(postgres_url) as release:
        turns = [a_turn() for _ in range(5)]
        waiting = [asyncio.create_task(store.commit(turn)) for turn in turns]
        async with asyncio.timeout(20):
            while await asyncio.to_thread(postgres.run, postgres_url, _WAITING) == [[]]:
                await asyncio.sleep(0)
        # It waits for the lock within its transaction: nothing is written, so it is tried again.
        await asyncio.to_thread(postgres.run, postgres_url, _CUT_WAITING)
        release()
        await asyncio.gather(*waiting)
    assert all([await whole(store, turn.response) for turn in turns])
    await store.aclose()


async def test_who_may_not_write_hears_so(postgres_url: str, pg_store: Store) -> None:
    row = await commit(pg_store, a_turn())
    trigger = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION SQLSTATE '53100' USING MESSAGE = 'no space left', DETAIL = 'words'; END $$
    """
    create = "CREATE TRIGGER full_disk BEFORE INSERT ON items EXECUTE FUNCTION refuse()"
    postgres.run(postgres_url, trigger, create)
    outcomes = await asyncio.gather(
        *(pg_store.commit(a_turn(row)) for _ in range(5)), return_exceptions=True
    )
    assert {str(outcome) for outcome in outcomes} == {
        "the database could not be used: no space left"
    }
    assert await whole(pg_store, row)
    postgres.run(postgres_url, "DROP TRIGGER full_disk ON items")
    assert await whole(pg_store, await commit(pg_store, a_turn(row)))


async def test_a_deadlock_is_tried_again(postgres_url: str, pg_store: Store) -> None:
    once = """
    CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('tries') < 3 THEN RAISE EXCEPTION SQLSTATE '40P01'; END IF; RETURN NULL;
    END $$
    """
    create = "CREATE TRIGGER victim AFTER INSERT ON items EXECUTE FUNCTION once()"
    postgres.run(postgres_url, "CREATE SEQUENCE tries", once, create)
    assert await whole(pg_store, await commit(pg_store, a_turn()))


async def test_no_content_in_an_error(pg_store: Store) -> None:
    taken = a_turn(input=[an_item(data=b"private words")])
    await pg_store.commit(taken)
    with pytest.raises(StoreError) as raised:
        await pg_store.commit(a_turn(owner="bob", id=taken.response.id))
    assert "private" not in str(raised.value)
    assert raised.value.__cause__ is None


async def test_leaves_nothing_behind(postgres_url: str) -> None:
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    store = await open_store(postgres_url)
    rows = [await commit(store, a_turn()) for _ in range(4)]
    reads = [asyncio.create_task(store.response("alice", row.id)) for row in rows]
    abandoned = asyncio.create_task(store.response("alice", rows[0].id))
    await asyncio.sleep(0)
    abandoned.cancel()
    await store.aclose()
    assert await asyncio.gather(*reads) == rows
    await asyncio.wait([abandoned])
    assert asyncio.all_tasks() == tasks
    assert set(threading.enumerate()) == threads
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    async with asyncio.timeout(20):
        while await asyncio.to_thread(postgres.run, postgres_url, count) != [[(1,)]]:
            await asyncio.sleep(0)


async def test_an_abandoned_read_spoils_no_connection(pg_store: Store) -> None:
    row = await commit(pg_store, a_turn())
    for _ in range(20):
        reads = [asyncio.create_task(pg_store.response("alice", row.id)) for _ in range(12)]
        await asyncio.sleep(0)
        for read in reads[::2]:
            read.cancel()
        done = await asyncio.gather(*reads, return_exceptions=True)
        assert [outcome == row for outcome in done[1::2]] == [True] * 6
        assert await whole(pg_store, row)


_OTHERS = "datname = current_database() AND pid <> pg_backend_pid()"
_CUT = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {_OTHERS}"
_WAITS = f"{_OTHERS} AND wait_event_type = 'Lock'"
_WAITING = f"SELECT pid FROM pg_stat_activity WHERE {_WAITS}"
_CUT_WAITING = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {_WAITS}"


@contextmanager
def _locked(url: str) -> Generator[Callable[[], None]]:
    """Another process holds the lock of the writers, until the function is called."""
    held, free = threading.Event(), threading.Event()

    async def hold() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(f"SELECT pg_advisory_lock({WRITE_LOCK})")
        held.set()
        await asyncio.to_thread(free.wait, 30)
        await connection.close()

    def release() -> None:
        free.set()
        thread.join(30)

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert held.wait(30)
        yield release
    finally:
        release()
