"""Stored turns: what a continuation starts from, and what a finished turn leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bascule.engine.additional import kept, put_back, without_repeated
from bascule.engine.references import Stored, read_rows, resolve
from bascule.engine.state import Continuation, Origin, OutputItem, TurnState, decode_continuation
from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.ids import mint
from bascule.protocols.responses.conversation import (
    already_in_conversation,
    conversation_locked,
    conversation_not_found,
)
from bascule.protocols.responses.items import ITEM_REFERENCE, Item
from bascule.protocols.responses.request import TurnRequest
from bascule.state.store import (
    Addition,
    Commit,
    ConversationChanged,
    ConversationGone,
    ConversationRow,
    ItemGone,
    ItemInConversation,
    ItemRow,
    ResponseRow,
    Store,
    StoreError,
)
from bascule.state.text import MAX_ID_BYTES, holdable, storable
from bascule.toolkit.handler import Handlers


@dataclass(frozen=True, slots=True)
class Chain:
    """What came before this turn, loaded; empty for a turn that continues nothing."""

    items: Sequence[Stored]
    keys: Sequence[str]
    continuation: Continuation
    conversation: ConversationRow | None = None
    unkept: Sequence[str] = ()
    """Of a conversation: keys that the response before does not keep."""


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


async def load(
    store: Store, owner: str, request: TurnRequest, handlers: Handlers
) -> tuple[Chain, list[Stored]]:
    """What the request continues, and the stored items that its input refers to, which take their
    places in it. Raises ApiError for what this owner does not have."""
    chain = NO_CHAIN
    if request.previous_response_id is not None:
        chain = await load_chain(store, owner, request.previous_response_id)
    elif request.conversation is not None:
        chain = await load_conversation(store, owner, request.conversation)
    request.input = without_repeated(request.input, chain.continuation.additional, handlers)
    referenced: list[Stored] = []
    if any(item.type == ITEM_REFERENCE for item in request.input):
        present = set(chain.keys)
        request.input, referenced = await resolve(store, owner, request.input, present)
    if chain.conversation is not None:
        _refuse_present(chain, request.input)
    return chain, referenced


async def load_chain(store: Store, owner: str, response_id: str) -> Chain:
    """Raises ApiError 400 for an id that this owner has no response under."""
    row = await store.response(owner, response_id)
    if row is None:
        raise _previous_not_found(response_id)
    keys = [*row.history, *row.input, *row.output]
    rows = await store.items(owner, keys)
    return Chain(read_rows(rows), keys, decode_continuation(row.state))


def history(chain: Chain) -> Sequence[Stored]:
    """All that came before, declarations at their places."""
    additional = chain.continuation.additional
    return put_back(chain.items, chain.keys, additional) if additional else chain.items


async def load_conversation(store: Store, owner: str, conversation_id: str) -> Chain:
    """Raises ApiError 404 for an id that this owner has no conversation under."""
    found = await store.load_conversation(owner, conversation_id)
    if found is None:
        raise conversation_not_found(conversation_id, "conversation")
    return Chain(
        read_rows(found.items),
        [row.key for row in found.items],
        decode_continuation(found.row.state),
        found.row,
        found.unkept,
    )


def _refuse_present(chain: Chain, inputs: Sequence[Item]) -> None:
    """An id names one item of a conversation only."""
    ids = {item.id for item, _ in chain.items}
    for i, item in enumerate(inputs):
        if item.id is not None and item.id in ids:
            raise already_in_conversation(f"input[{i}]")


def _previous_not_found(response_id: str) -> ApiError:
    return ApiError(
        400,
        f"Previous response with id '{response_id}' not found.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def lost(error: StoreError, request: TurnRequest) -> ApiError | None:
    """What a client is told whose turn cannot be written, since another took away what it rests
    on; None for a failure of the store."""
    if isinstance(error, ConversationGone):
        return conversation_not_found(request.conversation or "", "conversation")
    if isinstance(error, ConversationChanged | ItemInConversation):
        return conversation_locked(request.conversation or "")
    if not isinstance(error, ItemGone):
        return None
    if request.previous_response_id is not None:
        return _previous_not_found(request.previous_response_id)
    if request.conversation is not None:
        return conversation_locked(request.conversation)
    return ApiError(
        404,
        "An item that the input refers to was deleted while the turn ran.",
        param="input",
        code="item_not_found",
        type="invalid_request_error",
    )


def make_commit(
    state: TurnState,
    *,
    model: str,
    previous_response_id: str | None,
    chain: Chain,
    inputs: Sequence[Item],
    status: str,
    snapshot: bytes,
    continuation: Continuation,
    handlers: Handlers,
) -> Commit:
    """One turn's rows. Input items without an id get one; those that came with one keep it. A turn
    that ended as it should adds to its conversation."""
    new_rows = {
        i: input_row(item)
        for i, item in enumerate(inputs)
        if item.key is None and item.type not in handlers.unlisted
    }
    all_keys = [
        item.key or (new_rows[i].key if i in new_rows else None) for i, item in enumerate(inputs)
    ]
    input_keys = [key for key in all_keys if key is not None]
    continuation.additional = list(chain.continuation.additional)
    if len(input_keys) < len(all_keys):
        last = chain.keys[-1] if chain.keys else ""
        continuation.additional += kept(inputs, all_keys, last, handlers)
    output_rows = [_output_row(item) for item in state.output]
    response = ResponseRow(
        id=state.response_id,
        owner=state.owner,
        created_at=state.created_at,
        status=status,
        model=model,
        previous_response_id=previous_response_id,
        history=chain.keys,
        input=input_keys,
        output=[row.key for row in output_rows],
        snapshot=snapshot,
        state=json.encode(continuation),
    )
    items = [*new_rows.values(), *output_rows]
    conversation = chain.conversation
    if conversation is None:
        return Commit(response=response, items=items)
    addition = None
    if status in ("completed", "incomplete"):
        addition = Addition(
            conversation_id=conversation.id,
            keys=[*response.input, *response.output],
            version=conversation.version,
            state=response.state,
        )
    return Commit(
        response=response,
        items=items,
        addition=addition,
        parent_id=conversation.response_id,
        unkept=chain.unkept,
    )


async def write(store: Store, commit: Commit, *, keep: bool) -> None:
    """A turn whose response is not to be kept is written to its conversation alone. Raises
    StoreError."""
    if keep:
        await store.commit(commit)
    elif commit.addition is not None:
        row = commit.response
        await store.add_to_conversation(row.owner, commit.addition, commit.items, row.created_at)


_INPUT_PREFIX: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


def input_row(item: Item) -> ItemRow:
    """The row of an item that came from a client, with an id if it had none."""
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
