"""The port's suite for conversations: what every adapter of `Store` does."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bascule.protocols.ids import mint
from bascule.state.store import (
    Addition,
    Commit,
    ConversationChanged,
    ConversationGone,
    ConversationRow,
    ItemGone,
    ItemInConversation,
    ItemRow,
    Store,
)
from tests.state.database import counts
from tests.state.rows import a_turn, an_item, listed, whole

pytestmark = pytest.mark.anyio


async def a_conversation(
    store: Store, items: Sequence[ItemRow] = (), *, owner: str = "alice"
) -> ConversationRow:
    row = ConversationRow(
        id=mint("conv"), owner=owner, created_at=1_800_000_000, metadata=b'{"a":"b"}'
    )
    await store.create_conversation(row, items, [item.key for item in items])
    stored = await store.conversation(owner, row.id)
    assert stored is not None
    return stored


async def contents(store: Store, row: ConversationRow) -> list[ItemRow]:
    page = await store.conversation_page(row.owner, row.id, limit=100)
    assert page is not None
    assert not page.more
    loaded = await store.load_conversation(row.owner, row.id)
    assert loaded is not None
    assert list(loaded.items) == list(page.items)
    return list(page.items)


async def add(
    store: Store, row: ConversationRow, *items: ItemRow, version: int | None = None
) -> None:
    addition = Addition(conversation_id=row.id, keys=[i.key for i in items], version=version)
    await store.add_to_conversation(row.owner, addition, items, 1_800_000_001)


async def a_turn_in(
    store: Store, row: ConversationRow, *, owner: str = "alice", version: int | None = None
) -> Commit:
    """A turn whose history is what the conversation holds now, not yet committed."""
    loaded = await store.load_conversation(owner, row.id)
    assert loaded is not None
    turn = a_turn(history=[item.key for item in loaded.items], owner=owner)
    addition = Addition(
        conversation_id=row.id,
        keys=[*turn.response.input, *turn.response.output],
        version=loaded.row.version if version is None else version,
        state=b'{"plain":["f"]}',
    )
    return msgspec.structs.replace(
        turn, addition=addition, parent_id=loaded.row.response_id, unkept=loaded.unkept
    )


async def test_gives_back_what_it_was_given(store: Store) -> None:
    items = [an_item() for _ in range(5)]
    row = await a_conversation(store, items)
    assert row.metadata == b'{"a":"b"}'
    assert await contents(store, row) == items
    assert await store.conversation_item("alice", row.id, items[3].id) == items[3]
    assert await store.conversation_item("alice", row.id, mint("msg")) is None
    assert await store.set_conversation_metadata("alice", row.id, b"{}")
    changed = await store.conversation("alice", row.id)
    assert changed == msgspec.structs.replace(row, metadata=b"{}")


async def test_unknown_and_foreign_conversations_are_not_there(store: Store) -> None:
    item = an_item()
    row = await a_conversation(store, [item])
    for owner, id_ in (("alice", mint("conv")), ("bob", row.id), ("", row.id), ("alice", "\ud83d")):
        assert await store.conversation(owner, id_) is None
        assert await store.load_conversation(owner, id_) is None
        assert not await store.set_conversation_metadata(owner, id_, b"{}")
        assert not await store.delete_conversation(owner, id_)
        if id_ != "\ud83d":
            assert await store.conversation_item(owner, id_, item.id) is None
            assert not await store.remove_from_conversation(owner, id_, item.id)
            page = await store.conversation_page(owner, id_, limit=5)
            assert page is not None
            assert not page.items
            addition = Addition(conversation_id=id_, keys=[])
            with pytest.raises(ConversationGone):
                await store.add_to_conversation(owner, addition, [], 1)
    assert await contents(store, row) == [item]
    assert await store.conversation("alice", row.id) == row


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 10, 11])
async def test_pages_hold_each_item_once_and_in_order(
    store: Store, limit: int, descending: bool
) -> None:
    items = [an_item() for _ in range(10)]
    row = await a_conversation(store, items)
    seen: list[ItemRow] = []
    after, more = None, True
    while more:
        page = await store.conversation_page(
            "alice", row.id, limit=limit, after=after, descending=descending
        )
        assert page is not None
        assert 0 < len(page.items) <= limit
        seen += page.items
        after, more = page.items[-1].id, page.more
    assert seen == (items[::-1] if descending else items)
    last = await store.conversation_page(
        "alice", row.id, limit=limit, after=after, descending=descending
    )
    assert last is not None
    assert not last.items


async def test_a_page_after_what_is_not_there_is_none(store: Store) -> None:
    item, other = an_item(), an_item()
    row = await a_conversation(store, [item])
    await a_conversation(store, [other])
    for after in (mint("msg"), other.id, "\ud83d"):
        assert await store.conversation_page("alice", row.id, limit=5, after=after) is None


async def test_items_are_added_at_the_end(store: Store) -> None:
    first, second, third = an_item(), an_item(), an_item()
    row = await a_conversation(store, [first])
    await add(store, row, second)
    await add(store, row, third)
    assert await contents(store, row) == [first, second, third]


async def test_a_removed_item_is_gone_and_its_place_stays_empty(store: Store) -> None:
    items = [an_item() for _ in range(3)]
    row = await a_conversation(store, items)
    assert await store.remove_from_conversation("alice", row.id, items[1].id)
    assert not await store.remove_from_conversation("alice", row.id, items[1].id)
    assert await contents(store, row) == [items[0], items[2]]
    assert await store.find("alice", [items[1].id]) == {}
    later = an_item()
    await add(store, row, later)
    assert await contents(store, row) == [items[0], items[2], later]


async def test_a_stored_item_can_be_in_several_conversations(store: Store) -> None:
    item = an_item()
    first = await a_conversation(store, [item])
    second = await a_conversation(store)
    twice = Addition(conversation_id=second.id, keys=[item.key, item.key])
    await store.add_to_conversation("alice", twice, [], 1)
    assert await contents(store, second) == [item, item]
    again = Addition(conversation_id=first.id, keys=[item.key])
    with pytest.raises(ItemInConversation):
        await store.add_to_conversation("alice", again, [], 1)
    assert await store.delete_conversation("alice", first.id)
    assert await contents(store, second) == [item, item]
    for descending in (False, True):
        page = await store.conversation_page(
            "alice", second.id, limit=1, after=item.id, descending=descending
        )
        assert page is not None
        assert not page.items
    assert await store.remove_from_conversation("alice", second.id, item.id)
    assert await store.find("alice", [item.id]) == {}


async def test_a_failed_addition_writes_nothing(store: Store) -> None:
    item, new = an_item(), an_item()
    row = await a_conversation(store, [item])
    foreign = an_item()
    await a_conversation(store, [foreign], owner="bob")
    for keys, version, error in (
        ([new.key, mint("item")], None, ItemGone),
        ([new.key, foreign.key], None, ItemGone),
        ([new.key, item.key], None, ItemInConversation),
        ([new.key], row.version + 1, ConversationChanged),
    ):
        addition = Addition(conversation_id=row.id, keys=keys, version=version)
        with pytest.raises(error):
            await store.add_to_conversation("alice", addition, [new], 1)
    assert await store.find("alice", [new.id]) == {}
    assert await store.conversation("alice", row.id) == row
    assert await contents(store, row) == [item]


async def test_a_turn_adds_its_items_with_its_response(store: Store) -> None:
    row = await a_conversation(store, [an_item()])
    turns: list[Commit] = []
    for _ in range(3):
        turn = await a_turn_in(store, row)
        await store.commit(turn)
        await add(store, row, an_item())
        turns.append(turn)
    stored = await contents(store, row)
    assert len(stored) == 1 + 3 * 3
    last = turns[-1].response
    assert listed(last) == [item.key for item in stored[:-1]]
    for turn in turns:
        assert await whole(store, turn.response)
    loaded = await store.load_conversation("alice", row.id)
    assert loaded is not None
    assert loaded.row.response_id == last.id
    assert loaded.row.state == b'{"plain":["f"]}'
    assert loaded.unkept == [stored[-1].key]


async def test_the_later_of_two_turns_writes_nothing(store: Store) -> None:
    row = await a_conversation(store, [an_item()])
    winner, loser = await a_turn_in(store, row), await a_turn_in(store, row)
    outcomes = await asyncio.gather(
        store.commit(winner), store.commit(loser), return_exceptions=True
    )
    assert outcomes[0] is None
    assert isinstance(outcomes[1], ConversationChanged)
    assert await whole(store, winner.response)
    assert await store.response("alice", loser.response.id) is None
    assert await store.find("alice", [item.id for item in loser.items]) == {}
    assert len(await contents(store, row)) == 3


async def test_a_turn_of_a_deleted_conversation_writes_nothing(store: Store) -> None:
    row = await a_conversation(store, [an_item()])
    turn = await a_turn_in(store, row)
    assert await store.delete_conversation("alice", row.id)
    with pytest.raises((ConversationGone, ItemGone)):
        await store.commit(turn)
    assert await store.response("alice", turn.response.id) is None


async def test_responses_outlive_their_conversation(store: Store) -> None:
    row = await a_conversation(store, [an_item()])
    first = await a_turn_in(store, row)
    await store.commit(first)
    second = await a_turn_in(store, row)
    await store.commit(second)
    assert await store.delete_conversation("alice", row.id)
    assert await whole(store, first.response)
    assert await whole(store, second.response)
    assert await store.delete_response("alice", first.response.id)
    assert await whole(store, second.response)
    assert await store.delete_response("alice", second.response.id)
    ids = [item.id for turn in (first, second) for item in turn.items]
    assert await store.find("alice", ids) == {}


async def test_a_conversation_outlives_its_responses(store: Store) -> None:
    row = await a_conversation(store, [an_item()])
    first = await a_turn_in(store, row)
    await store.commit(first)
    before = await contents(store, row)
    assert await store.delete_response("alice", first.response.id)
    assert await contents(store, row) == before
    second = await a_turn_in(store, row)
    await store.commit(second)
    assert await whole(store, second.response)
    assert await store.delete_conversation("alice", row.id)
    assert await whole(store, second.response)
    assert await store.delete_response("alice", second.response.id)
    assert await store.find("alice", [item.id for item in before]) == {}


async def test_an_item_that_left_the_conversation_stays_with_its_response(store: Store) -> None:
    row = await a_conversation(store)
    turn = await a_turn_in(store, row)
    await store.commit(turn)
    assert await store.remove_from_conversation("alice", row.id, turn.items[0].id)
    assert await contents(store, row) == list(turn.items[1:])
    assert await whole(store, turn.response)


async def test_finds_the_keys_of_an_id(store: Store) -> None:
    same = mint("msg")
    items = [an_item(same), an_item(same), an_item()]
    await store.commit(a_turn(input=items, output=[]))
    assert await store.keys_of("alice", same) == [items[0].key, items[1].key]
    assert await store.keys_of("bob", same) == []
    assert await store.keys_of("alice", "\ud83d") == []


async def test_ten_thousand_items(store: Store) -> None:
    items = [an_item() for _ in range(10_000)]
    row = await a_conversation(store, items)
    started = time.perf_counter()
    for after in (None, items[20].id, items[9_000].id):
        page = await store.conversation_page("alice", row.id, limit=20, after=after)
        assert page is not None
        assert len(page.items) == 20
    pages = time.perf_counter() - started
    started = time.perf_counter()
    loaded = await store.load_conversation("alice", row.id)
    whole_read = time.perf_counter() - started
    assert loaded is not None
    assert list(loaded.items) == items
    # A page costs what it gives: reading all takes far longer than three of them.
    assert pages < whole_read


async def test_what_a_response_borrowed_the_next_one_does_not_borrow_again(
    file_store: Store, path: Path
) -> None:
    row = await a_conversation(file_store, [an_item() for _ in range(100)])
    for _ in range(5):
        turn = await a_turn_in(file_store, row)
        await file_store.commit(turn)
        assert await whole(file_store, turn.response)
    assert counts(f"sqlite:///{path}")["borrowed_items"] == 100
    await add(file_store, row, an_item())
    await file_store.commit(await a_turn_in(file_store, row))
    assert counts(f"sqlite:///{path}")["borrowed_items"] == 101
