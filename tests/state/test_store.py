"""The port's suite: what every adapter of `Store` does."""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.protocols.ids import mint
from bascule.state.store import Commit, ItemRow, Store, StoreError
from tests.state.rows import a_turn, an_item, commit, listed, whole

pytestmark = pytest.mark.anyio

# PostgreSQL's text has no NUL; ids never do.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    data=st.binary(max_size=300),
    origin=st.none() | st.binary(max_size=20),
    texts=st.tuples(TEXT, TEXT, TEXT, TEXT),
    blobs=st.tuples(st.binary(max_size=300), st.binary(max_size=20)),
)
async def test_gives_back_exactly_what_it_was_given(
    store: Store,
    data: bytes,
    origin: bytes | None,
    texts: tuple[str, str, str, str],
    blobs: tuple[bytes, bytes],
) -> None:
    key, public_id, kind, model = texts
    item = ItemRow(key=mint("item") + key, id=public_id, type=kind, data=data, origin=origin)
    turn = a_turn(input=[item], output=[])
    row = msgspec.structs.replace(turn.response, model=model, snapshot=blobs[0], state=blobs[1])
    await store.commit(Commit(response=row, items=[item]))
    assert await store.response("alice", row.id) == row
    assert await store.items("alice", [item.key]) == [item]
    assert await store.find("alice", [public_id]) == {public_id: item}


async def test_keeps_items_in_the_order_asked_for(store: Store) -> None:
    items = [an_item() for _ in range(50)]
    await store.commit(a_turn(input=items, output=[]))
    asked = [*reversed(items), items[7], items[7]]
    assert await store.items("alice", [item.key for item in asked]) == asked
    assert await store.items("alice", []) == []
    assert await store.find("alice", []) == {}


async def test_reads_more_items_than_a_statement_takes_variables(store: Store) -> None:
    items = [an_item() for _ in range(2_500)]
    await store.commit(a_turn(input=items, output=[]))
    assert await store.items("alice", [item.key for item in items]) == items
    assert len(await store.find("alice", [item.id for item in items])) == len(items)


async def test_continues_a_chain(store: Store) -> None:
    row = await commit(store, a_turn())
    for _ in range(20):
        row = await commit(store, a_turn(row))
    assert len(row.history) == 40
    assert await whole(store, row)


async def test_lists_keys_of_any_form(store: Store) -> None:
    items = [an_item(key=f"{index} ключ\n{mint('x')}") for index in range(3)]
    assert await whole(store, await commit(store, a_turn(input=items)))


async def test_an_unknown_response_is_none_and_an_unknown_item_an_error(store: Store) -> None:
    turn = a_turn()
    await store.commit(turn)
    assert await store.response("alice", mint("resp")) is None
    assert await store.find("alice", [mint("msg")]) == {}
    assert await store.delete_response("alice", mint("resp")) is False
    with pytest.raises(StoreError, match="missing"):
        await store.items("alice", [turn.items[0].key, mint("item")])


async def test_an_id_that_cannot_be_stored_is_unknown(store: Store) -> None:
    half = "resp_\ud83d"
    assert await store.response("alice", half) is None
    assert await store.delete_response("alice", half) is False
    assert await store.find("alice", [half]) == {}


async def test_a_foreign_id_is_an_unknown_one(store: Store) -> None:
    turn = a_turn()
    await store.commit(turn)
    row, item = turn.response, turn.items[0]
    for stranger in ("bob", ""):
        assert await store.response(stranger, row.id) is None
        assert await store.find(stranger, [item.id]) == {}
        assert await store.delete_response(stranger, row.id) is False
        with pytest.raises(StoreError) as foreign:
            await store.items(stranger, [item.key])
        unknown = item.key[::-1]
        with pytest.raises(StoreError) as missing:
            await store.items(stranger, [unknown])
        assert str(foreign.value).replace(item.key, "KEY") == str(missing.value).replace(
            unknown, "KEY"
        )
    assert await whole(store, row)


async def test_a_foreign_response_is_not_replaced(store: Store) -> None:
    turn = a_turn()
    await store.commit(turn)
    with pytest.raises(StoreError):
        await store.commit(a_turn(owner="bob", id=turn.response.id))
    assert await whole(store, turn.response)


async def test_a_foreign_parent_is_an_unknown_one(store: Store) -> None:
    row = await commit(store, a_turn())
    # Its items are not bob's to list; without them the turn stands alone.
    with pytest.raises(StoreError, match="not stored"):
        await store.commit(a_turn(row, owner="bob"))
    theirs = await commit(store, a_turn(row, owner="bob", history=[]))
    assert await whole(store, theirs)
    assert await store.delete_response("alice", row.id)
    with pytest.raises(StoreError):
        await store.items("alice", listed(row))


async def test_committing_again_replaces(store: Store) -> None:
    first = a_turn(status="in_progress", output=[])
    await store.commit(first)
    added = an_item()
    row = msgspec.structs.replace(
        first.response, status="completed", output=[added.key], snapshot=b"new", state=b"more"
    )
    await store.commit(Commit(response=row, items=[*first.items, added]))
    assert await whole(store, row)
    final = msgspec.structs.replace(row, status="failed")
    await store.commit(Commit(response=final, items=[]))
    assert await whole(store, final)
    assert await store.delete_response("alice", row.id)
    assert await store.find("alice", [item.id for item in [*first.items, added]]) == {}


async def test_an_item_never_changes(store: Store) -> None:
    turn = a_turn()
    await store.commit(turn)
    changed = msgspec.structs.replace(turn.items[0], data=b"other")
    with pytest.raises(StoreError, match="another item"):
        await store.commit(Commit(response=turn.response, items=[changed]))
    with pytest.raises(StoreError, match="another item"):
        await store.commit(a_turn(input=[turn.items[0]]))
    assert await store.items("alice", [turn.items[0].key]) == [turn.items[0]]


async def test_a_response_continues_the_same_one_for_ever(store: Store) -> None:
    parent, other = await commit(store, a_turn()), await commit(store, a_turn())
    row = await commit(store, a_turn(parent))
    with pytest.raises(StoreError):
        await store.commit(a_turn(other, id=row.id))
    assert await whole(store, row)


async def test_finds_the_newest_row_of_an_id(store: Store) -> None:
    old, new, single = an_item("msg_1", data=b"old"), an_item("msg_1", data=b"new"), an_item()
    await store.commit(a_turn(input=[old, single]))
    last = await commit(store, a_turn(input=[new]))
    await store.commit(a_turn(owner="bob", input=[an_item("msg_1", data=b"bob's")]))
    found = await store.find("alice", ["msg_1", single.id, "msg_1", "msg_2"])
    assert found == {"msg_1": new, single.id: single}
    assert await store.delete_response("alice", last.id)
    assert await store.find("alice", ["msg_1"]) == {"msg_1": old}


async def test_a_list_that_names_an_unknown_item_is_refused(store: Store) -> None:
    turn = a_turn()
    row = turn.response
    for lists in (
        {"input": [*row.input, mint("item")]},
        {"output": [*row.output, mint("item")]},
        {"history": [mint("item")]},
        {"history": [mint("item")], "previous_response_id": mint("resp")},
    ):
        bad = msgspec.structs.replace(row, **lists)
        with pytest.raises(StoreError, match="not stored"):
            await store.commit(Commit(response=bad, items=turn.items))
    assert await store.response("alice", row.id) is None
    assert await store.find("alice", [item.id for item in turn.items]) == {}


async def test_a_parent_that_is_not_stored_needs_its_items_brought_along(store: Store) -> None:
    unstored = a_turn()
    child = a_turn(unstored.response)
    await store.commit(Commit(response=child.response, items=[*unstored.items, *child.items]))
    assert await whole(store, child.response)


async def test_concurrent_commits_are_all_there(store: Store) -> None:
    turns = [a_turn(owner=f"user-{index % 3}") for index in range(200)]
    await asyncio.gather(*(store.commit(turn) for turn in turns))
    assert all([await whole(store, turn.response) for turn in turns])


async def test_a_bad_commit_fails_alone(store: Store) -> None:
    taken = a_turn()
    await store.commit(taken)
    bad = [
        a_turn(input=[msgspec.structs.replace(taken.items[0], data=b"other")]),
        a_turn(owner="bob", id=taken.response.id),
        a_turn(input=[an_item("\ud83d")]),
        a_turn(history=[mint("item")]),
    ]
    good = [a_turn() for _ in range(20)]
    mixed = [*good[:5], bad[0], bad[1], *good[5:12], bad[2], *good[12:], bad[3]]
    outcomes = await asyncio.gather(*(store.commit(turn) for turn in mixed), return_exceptions=True)
    for turn, outcome in zip(mixed, outcomes, strict=True):
        if turn in bad:
            assert isinstance(outcome, StoreError)
        else:
            assert outcome is None
            assert await whole(store, turn.response)
    assert len({id(outcome) for outcome in outcomes if outcome}) == len(bad)


async def test_a_parent_and_its_child_may_share_a_group(store: Store) -> None:
    parent = a_turn()
    child = a_turn(parent.response)
    await asyncio.gather(store.commit(parent), store.commit(child))
    assert await store.delete_response("alice", parent.response.id)
    assert await whole(store, child.response)


async def test_a_cancelled_commit_spoils_nothing(store: Store) -> None:
    turns = [a_turn() for _ in range(60)]
    tasks = [asyncio.create_task(store.commit(turn)) for turn in turns]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes) == 20
    for turn, outcome in zip(turns, outcomes, strict=True):
        stored = await store.response("alice", turn.response.id)
        if outcome is None or stored is not None:
            assert await whole(store, turn.response)
    assert await whole(store, await commit(store, a_turn()))


async def test_a_commit_that_has_begun_goes_on_without_its_caller(store: Store) -> None:
    turns = [a_turn() for _ in range(10)]
    tasks = [asyncio.create_task(store.commit(turn)) for turn in turns]
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the group is on its way
    for task in tasks:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    # One writer, in order: what comes later is written later.
    await store.commit(a_turn())
    assert all([await whole(store, turn.response) for turn in turns])


async def test_nothing_is_read_or_deleted_across_owners(store: Store) -> None:
    rows = {owner: await commit(store, a_turn(owner=owner)) for owner in ("alice", "bob", "")}
    shared = {
        owner: await commit(store, a_turn(owner=owner, input=[an_item("msg_shared")]))
        for owner in rows
    }
    for owner, row in rows.items():
        for stranger in set(rows) - {owner}:
            assert await store.response(stranger, row.id) is None
            assert await store.delete_response(stranger, row.id) is False
            with pytest.raises(StoreError, match="missing"):
                await store.items(stranger, listed(row))
            with pytest.raises(StoreError, match="missing"):
                await store.items(stranger, [*listed(rows[stranger]), *listed(row)])
            with pytest.raises(StoreError, match="not stored"):
                await store.commit(a_turn(owner=stranger, history=listed(row)))
            with pytest.raises(StoreError, match="in the way"):
                await store.commit(a_turn(owner=stranger, id=row.id))
        found = await store.find(owner, ["msg_shared"])
        assert [item.key for item in found.values()] == list(shared[owner].input)
    for owner in ("bob", ""):
        assert await store.delete_response(owner, rows[owner].id)
        assert await store.delete_response(owner, shared[owner].id)
    assert await whole(store, rows["alice"])
    assert await whole(store, shared["alice"])


@pytest.mark.parametrize("bad", ["a\0b", "half \ud83d", "x" * 1025, "é" * 600])
async def test_text_that_cannot_be_stored_is_refused_alone(store: Store, bad: str) -> None:
    good = a_turn()
    named = a_turn()
    turns = [
        a_turn(input=[an_item(bad)]),
        a_turn(input=[an_item(key=bad)]),
        a_turn(id=bad),
        Commit(
            response=msgspec.structs.replace(named.response, previous_response_id=bad),
            items=named.items,
        ),
    ]
    outcomes = await asyncio.gather(
        store.commit(good), *(store.commit(turn) for turn in turns), return_exceptions=True
    )
    assert outcomes[0] is None
    for outcome in outcomes[1:]:
        assert isinstance(outcome, StoreError)
        assert "cannot be stored" in str(outcome)
        assert bad not in str(outcome)
    assert await store.response("alice", bad) is None
    assert await store.find("alice", [bad]) == {}
    assert await store.delete_response("alice", bad) is False
    with pytest.raises(StoreError, match="missing"):
        await store.items("alice", [bad])
    assert await whole(store, good.response)


async def test_deleting_waits_its_turn(store: Store) -> None:
    turn = a_turn()
    done = await asyncio.gather(
        store.commit(turn),
        store.delete_response("alice", turn.response.id),
        store.delete_response("alice", turn.response.id),
    )
    assert done == [None, True, False]
    assert await store.response("alice", turn.response.id) is None


async def test_closing_writes_what_is_queued_and_refuses_the_rest(store: Store) -> None:
    turns = [a_turn() for _ in range(100)]
    tasks = [asyncio.create_task(store.commit(turn)) for turn in turns]
    await asyncio.sleep(0)
    await asyncio.gather(store.aclose(), store.aclose())
    assert await asyncio.gather(*tasks) == [None] * len(turns)
    row = turns[0].response
    for refused in (
        store.commit(turns[0]),
        store.response("alice", row.id),
        store.items("alice", row.input),
        store.find("alice", ["msg_1"]),
        store.delete_response("alice", row.id),
    ):
        with pytest.raises(StoreError, match="closed"):
            await refused
    await store.aclose()
