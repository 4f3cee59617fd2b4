"""Deleting responses: the port's promise about what goes and what stays."""

import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.state.store import Commit, ItemRow, ResponseRow, Store, StoreError
from tests.state.database import counts
from tests.state.rows import a_turn, commit, listed, whole

pytestmark = pytest.mark.anyio


async def gone(store: Store, keys: list[str]) -> bool:
    for key in keys:
        try:
            await store.items("alice", [key])
        except StoreError:
            continue
        return False
    return True


async def test_items_go_with_their_response(store: Store) -> None:
    row = await commit(store, a_turn())
    assert await store.delete_response("alice", row.id)
    assert await store.response("alice", row.id) is None
    assert await gone(store, listed(row))
    assert not await store.delete_response("alice", row.id)


async def test_a_deleted_parent_is_invisible_but_its_child_whole(store: Store) -> None:
    first = await commit(store, a_turn())
    second = await commit(store, a_turn(first))
    third = await commit(store, a_turn(second))
    sibling = await commit(store, a_turn(first))
    assert await store.delete_response("alice", first.id)
    assert await store.delete_response("alice", second.id)
    assert not await store.delete_response("alice", first.id)
    assert await store.response("alice", first.id) is None
    assert await store.response("alice", second.id) is None
    assert await whole(store, third)
    assert await store.delete_response("alice", third.id)
    assert await gone(store, [*second.input, *second.output, *third.input, *third.output])
    assert await whole(store, sibling)
    assert await store.delete_response("alice", sibling.id)
    assert await gone(store, [*listed(third), *listed(sibling)])


async def test_a_child_may_join_a_deleted_parent_that_others_keep(store: Store) -> None:
    first = await commit(store, a_turn())
    second = await commit(store, a_turn(first))
    assert await store.delete_response("alice", first.id)
    late = await commit(store, a_turn(first))
    assert await store.delete_response("alice", second.id)
    assert await whole(store, late)
    assert await store.delete_response("alice", late.id)
    assert await gone(store, listed(late))


async def test_a_child_of_a_parent_that_is_gone_is_refused(store: Store) -> None:
    first = await commit(store, a_turn())
    assert await store.delete_response("alice", first.id)
    with pytest.raises(StoreError, match="not stored"):
        await store.commit(a_turn(first))


async def test_an_item_that_another_response_refers_to_stays(store: Store) -> None:
    creator = await commit(store, a_turn())
    child = await commit(store, a_turn(creator))
    turn = a_turn()
    row = msgspec.structs.replace(turn.response, input=[*creator.output, *turn.response.input])
    borrower = await commit(store, Commit(response=row, items=turn.items))
    for response in (creator, child):
        assert await store.delete_response("alice", response.id)
    assert await whole(store, borrower)
    assert await gone(store, [*creator.input, *child.input, *child.output])
    assert await store.delete_response("alice", borrower.id)
    assert await gone(store, listed(borrower))


async def test_what_was_committed_in_two_steps_goes_as_one(
    store: Store,
) -> None:
    begun = a_turn(output=[], status="in_progress")
    await store.commit(begun)
    ended = a_turn(id=begun.response.id, input=[], history=[])
    row = msgspec.structs.replace(ended.response, input=begun.response.input)
    await store.commit(Commit(response=row, items=ended.items))
    assert await store.delete_response("alice", row.id)
    assert await gone(store, listed(row))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parents=st.lists(st.integers(-1, 15), min_size=1, max_size=14), seed=st.integers(0, 999))
async def test_random_trees_leave_nothing_behind(
    url: str, store: Store, parents: list[int], seed: int
) -> None:
    order = random.Random(seed)
    living: list[ResponseRow] = []
    items: list[ItemRow] = []
    for index, parent in enumerate(parents):
        above = living[parent % len(living)] if living and parent >= 0 else None
        turn = a_turn(above)
        # Now and then an item out of another tree, as an item reference brings it.
        lent = [order.choice(items).key] if items and order.random() < 0.3 else []
        row = msgspec.structs.replace(turn.response, input=[*lent, *turn.response.input])
        try:
            living.append(await commit(store, Commit(response=row, items=turn.items)))
        except StoreError:
            # Only where what it refers to went with a response that was deleted.
            assert lent
            continue
        items += turn.items
        if index % 4 == 3:
            await _delete_one(store, living, order)
    while living:
        await _delete_one(store, living, order)
    if url != "sqlite://":
        assert not any(counts(url).values())


async def _delete_one(store: Store, living: list[ResponseRow], order: random.Random) -> None:
    row = living.pop(order.randrange(len(living)))
    assert await store.delete_response("alice", row.id)
    assert await store.response("alice", row.id) is None
    for other in living:
        assert await whole(store, other)
