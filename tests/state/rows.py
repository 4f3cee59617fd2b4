"""Rows to store."""

from collections.abc import Sequence

from bascule.protocols.ids import mint
from bascule.state.store import Commit, ItemRow, ResponseRow, Store


def an_item(
    public_id: str | None = None, *, key: str | None = None, data: bytes = b"{}"
) -> ItemRow:
    return ItemRow(
        key=key or mint("item"),
        id=public_id or mint("msg"),
        type="message",
        data=data,
        origin=b'{"id":"up_1"}',
    )


def a_turn(
    parent: ResponseRow | None = None,
    *,
    owner: str = "alice",
    id: str | None = None,  # noqa: A002 -- the field's name
    input: Sequence[ItemRow] | None = None,  # noqa: A002 -- likewise
    output: Sequence[ItemRow] | None = None,
    history: Sequence[str] | None = None,
    status: str = "completed",
) -> Commit:
    """A turn with one item in and one out, unless given, that continues `parent`."""
    came = [an_item()] if input is None else input
    went = [an_item()] if output is None else output
    inherited = [*parent.history, *parent.input, *parent.output] if parent else []
    row = ResponseRow(
        id=id or mint("resp"),
        owner=owner,
        created_at=1_800_000_000,
        status=status,
        model="some-model",
        previous_response_id=parent.id if parent else None,
        history=inherited if history is None else history,
        input=[item.key for item in came],
        output=[item.key for item in went],
        snapshot=b'{"object":"response","output":[]}',
        state=b'{"round":1}',
    )
    return Commit(response=row, items=[*came, *went])


def listed(row: ResponseRow) -> list[str]:
    """All item keys of a response, in order."""
    return [*row.history, *row.input, *row.output]


async def commit(store: Store, turn: Commit) -> ResponseRow:
    """Commits and gives the row, to be continued."""
    await store.commit(turn)
    return turn.response


async def whole(store: Store, row: ResponseRow) -> bool:
    """Whether the response is stored as it was given, with every item that it lists."""
    stored = await store.response(row.owner, row.id)
    if stored != row:
        return False
    items = await store.items(row.owner, listed(row))
    return [item.key for item in items] == listed(row)
