"""/v1/conversations/{id}/items and one of them."""

import time
from collections.abc import Collection, Sequence

from starlette.requests import Request
from starlette.responses import Response

from bascule.engine.adding import new_items
from bascule.gateway.routes.common import gateway_of, json_answer, owner_of, with_ignored
from bascule.gateway.routes.conversations import (
    conversation_id_of,
    conversation_of,
    read_request,
)
from bascule.gateway.routes.conversations import (
    shown as shown_conversation,
)
from bascule.gateway.routes.paging import read_include, read_paging, unknown_cursor
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.conversation import (
    already_in_conversation,
    conversation_locked,
    conversation_not_found,
    item_not_found,
)
from bascule.protocols.responses.listing import show_list, shown
from bascule.state.store import (
    Addition,
    ConversationChanged,
    ConversationGone,
    ItemGone,
    ItemInConversation,
    ItemRow,
)


async def add_items(request: Request) -> Response:
    """To the end. ApiError 404 for the conversation, 409 while a turn runs on it."""
    owner, engine = owner_of(request), gateway_of(request).engine
    id_ = conversation_id_of(request)
    include = read_include(request)
    asked = await read_request(request, ("items",), required="items")
    most = gateway_of(request).config.limits.max_items
    if len(asked.items or ()) > most:
        raise invalid(f"More than {most} items are added.", "items", "array_above_max_length")
    with engine.locks.changing(owner, id_):
        row = await conversation_of(request, owner)
        rows, keys = await new_items(engine.store, owner, asked.items or ())
        addition = Addition(conversation_id=row.id, keys=keys)
        try:
            await engine.store.add_to_conversation(owner, addition, rows, int(time.time()))
        except (ConversationGone, ConversationChanged, ItemInConversation, ItemGone) as e:
            raise _refusal(e, id_) from e
    added = await engine.store.items(owner, keys)
    return with_ignored(_page(added, include, more=False), asked.ignored)


def _refusal(error: Exception, id_: str) -> ApiError:
    if isinstance(error, ConversationGone):
        return conversation_not_found(id_, "conversation_id")
    if isinstance(error, ItemInConversation):
        return already_in_conversation("items")
    return conversation_locked(id_)


async def list_items(request: Request) -> Response:
    """A page. ApiError 404 for the conversation and for the cursor."""
    owner, store = owner_of(request), gateway_of(request).engine.store
    paging = read_paging(request)
    row = await conversation_of(request, owner)
    page = await store.conversation_page(
        owner, row.id, limit=paging.limit, after=paging.after, descending=paging.descending
    )
    if page is None:
        raise unknown_cursor(paging.after)
    return _page(page.items, paging.include, more=page.more)


async def get_item(request: Request) -> Response:
    """ApiError 404."""
    owner, store = owner_of(request), gateway_of(request).engine.store
    include = read_include(request)
    row = await conversation_of(request, owner)
    item_id = request.path_params["item_id"]
    item = await store.conversation_item(owner, row.id, item_id)
    if item is None:
        raise item_not_found(item_id, "item_id")
    return json_answer(shown(item.type, item.data, include))


async def delete_item(request: Request) -> Response:
    """Answers with the conversation. ApiError 404, and 409 while a turn runs on it."""
    owner, engine = owner_of(request), gateway_of(request).engine
    id_, item_id = conversation_id_of(request), request.path_params["item_id"]
    with engine.locks.changing(owner, id_):
        row = await conversation_of(request, owner)
        if not await engine.store.remove_from_conversation(owner, id_, item_id):
            raise item_not_found(item_id, "item_id")
    return json_answer(shown_conversation(row))


def _page(items: Sequence[ItemRow], include: Collection[str], *, more: bool) -> Response:
    data = [shown(item.type, item.data, include) for item in items]
    return json_answer(show_list([item.id for item in items], data, more=more))
