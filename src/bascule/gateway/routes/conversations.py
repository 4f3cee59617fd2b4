"""/v1/conversations and /v1/conversations/{id}."""

import time

from starlette.requests import Request
from starlette.responses import Response

from bascule.engine.adding import new_items
from bascule.gateway.body import read_body
from bascule.gateway.routes.common import gateway_of, json_answer, owner_of, with_ignored
from bascule.protocols.ids import mint
from bascule.protocols.responses.conversation import (
    ConversationRequest,
    check_id,
    conversation_not_found,
    decode_request,
    show_conversation,
    show_deleted,
)
from bascule.state.store import ConversationRow


async def read_request(
    request: Request, allowed: tuple[str, ...], required: str = ""
) -> ConversationRequest:
    """The body. Raises ApiError 400, 413 and 415."""
    limit = gateway_of(request).config.limits.max_body_bytes
    body = await read_body(request.receive, request.headers.raw, limit)
    return decode_request(body, allowed, required)


def conversation_id_of(request: Request) -> str:
    """That of the path. Raises ApiError 400 for one that cannot be a conversation's."""
    return check_id(request.path_params["conversation_id"], "conversation_id")


async def conversation_of(request: Request, owner: str) -> ConversationRow:
    """The one that the path names. Raises ApiError 400 and 404."""
    id_ = conversation_id_of(request)
    row = await gateway_of(request).engine.store.conversation(owner, id_)
    if row is None:
        raise conversation_not_found(id_, "conversation_id")
    return row


def shown(row: ConversationRow) -> bytes:
    return show_conversation(row.id, row.created_at, row.metadata)


async def create_conversation(request: Request) -> Response:
    """With items and metadata, if given."""
    owner, store = owner_of(request), gateway_of(request).engine.store
    asked = await read_request(request, ("items", "metadata"))
    rows, keys = await new_items(store, owner, asked.items or ())
    row = ConversationRow(
        id=mint("conv"),
        owner=owner,
        created_at=int(time.time()),
        metadata=asked.metadata or b"{}",
    )
    await store.create_conversation(row, rows, keys)
    return with_ignored(json_answer(shown(row)), asked.ignored)


async def get_conversation(request: Request) -> Response:
    """ApiError 404."""
    row = await conversation_of(request, owner_of(request))
    return json_answer(shown(row))


async def update_conversation(request: Request) -> Response:
    """Its metadata. ApiError 404."""
    owner, store = owner_of(request), gateway_of(request).engine.store
    id_ = conversation_id_of(request)
    asked = await read_request(request, ("metadata",), required="metadata")
    if not await store.set_conversation_metadata(owner, id_, asked.metadata or b"{}"):
        raise conversation_not_found(id_, "conversation_id")
    row = await conversation_of(request, owner)
    return with_ignored(json_answer(shown(row)), asked.ignored)


async def delete_conversation(request: Request) -> Response:
    """Its responses stay. ApiError 404."""
    owner, engine = owner_of(request), gateway_of(request).engine
    id_ = conversation_id_of(request)
    if not await engine.store.delete_conversation(owner, id_):
        raise conversation_not_found(id_, "conversation_id")
    return json_answer(show_deleted(id_))
