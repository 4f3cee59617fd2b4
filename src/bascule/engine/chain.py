"""Stored turns: what a continuation starts from, and what a finished turn leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass

from bascule.engine.state import (
    Continuation,
    Origin,
    OutputItem,
    TurnState,
    decode_continuation,
    decode_origin,
)
from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.ids import mint
from bascule.protocols.responses.items import Item
from bascule.state.store import Commit, ItemRow, ResponseRow, Store
from bascule.state.text import MAX_ID_BYTES, holdable, storable


@dataclass(frozen=True, slots=True)
class Chain:
    """The turns before this one, loaded; empty for a turn that continues nothing."""

    items: Sequence[tuple[Item, Origin | None]]
    keys: Sequence[str]
    continuation: Continuation


NO_CHAIN = Chain((), (), Continuation())


def check_names(model: str, inputs: Sequence[Item]) -> None:
    """Raises ApiError 400 for a name that no database can hold: at the turn's end it would be too
    late to say so."""
    if not holdable(model):
        raise invalid("Invalid 'model': it holds a NUL character.", "model", "invalid_value")
    for i, item in enumerate(inputs):
        if item.id is not None and not storable(item.id):
            raise invalid(
                f"Invalid 'input[{i}].id': an id has no NUL character and at most "
                f"{MAX_ID_BYTES} bytes.",
                f"input[{i}].id",
                "invalid_value",
            )


async def load_chain(store: Store, owner: str, response_id: str) -> Chain:
    """Raises ApiError 400 for an id that this owner has no response under."""
    row = await store.response(owner, response_id)
    if row is None:
        raise ApiError(
            400,
            f"Previous response with id '{response_id}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    keys = [*row.history, *row.input, *row.output]
    rows = await store.items(owner, keys)
    return Chain([read_row(r) for r in rows], keys, decode_continuation(row.state))


def read_row(row: ItemRow) -> tuple[Item, Origin | None]:
    """A stored item, and what was kept of its origin."""
    origin = None if row.origin is None else decode_origin(row.origin)
    return Item(row.type, row.id, row.data), origin


def make_commit(
    state: TurnState,
    *,
    model: str,
    previous_response_id: str | None,
    history: Sequence[str],
    inputs: Sequence[Item],
    status: str,
    snapshot: bytes,
    continuation: Continuation,
) -> Commit:
    """One turn's rows. Input items without an id get one; those that came with one keep it."""
    input_rows = [_input_row(item) for item in inputs]
    output_rows = [_output_row(item) for item in state.output]
    response = ResponseRow(
        id=state.response_id,
        owner=state.owner,
        created_at=state.created_at,
        status=status,
        model=model,
        previous_response_id=previous_response_id,
        history=history,
        input=[row.key for row in input_rows],
        output=[row.key for row in output_rows],
        snapshot=snapshot,
        state=json.encode(continuation),
    )
    return Commit(response=response, items=[*input_rows, *output_rows])


_INPUT_PREFIX = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


def _input_row(item: Item) -> ItemRow:
    # The client's ids may repeat, so the row has a key of its own.
    key = mint("item")
    origin = None if item.model is None else json.encode(Origin(model=list(item.model)))
    if item.id is not None:
        return ItemRow(key=key, id=item.id, type=item.type, data=item.raw, origin=origin)
    id_ = mint(_INPUT_PREFIX.get(item.type, "item"))
    data = json.merge(item.raw, type=item.type, id=id_)
    return ItemRow(key=key, id=id_, type=item.type, data=data, origin=origin)


def _output_row(item: OutputItem) -> ItemRow:
    origin = None if item.origin is None else json.encode(item.origin)
    return ItemRow(
        key=mint("item"), id=item.id, type=item.type, data=bytes(item.data), origin=origin
    )
