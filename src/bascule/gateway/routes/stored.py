"""GET and DELETE /v1/responses/{id}, and its input items."""

from starlette.requests import Request
from starlette.responses import Response

from bascule.gateway.routes.common import gateway_of, json_answer, owner_of
from bascule.gateway.routes.paging import read_include, read_paging, unknown_cursor
from bascule.protocols import json
from bascule.protocols.errors import ApiError
from bascule.protocols.responses.include import gate
from bascule.protocols.responses.listing import show_list, shown
from bascule.protocols.responses.response import with_output
from bascule.state.store import ResponseRow


async def get_response(request: Request) -> Response:
    """The stored response. ApiError 404."""
    owner, store = owner_of(request), gateway_of(request).engine.store
    _refuse_query(request)
    include = read_include(request)
    row = await _row(request, owner)
    items = await store.items(owner, row.output)
    output = [gate(item.type, item.data, include) for item in items]
    return json_answer(with_output(row.snapshot, output))


async def delete_response(request: Request) -> Response:
    """ApiError 404."""
    owner = owner_of(request)
    response_id = request.path_params["response_id"]
    if not await gateway_of(request).engine.store.delete_response(owner, response_id):
        raise _not_found(response_id)
    return json_answer(json.encode({"id": response_id, "object": "response", "deleted": True}))


async def list_input_items(request: Request) -> Response:
    """All that the model read for a response: the history before it, and its own input. ApiError
    404 for the response and for the cursor."""
    owner, store = owner_of(request), gateway_of(request).engine.store
    paging = read_paging(request)
    row = await _row(request, owner)
    keys = [*row.history, *row.input]
    if paging.descending:
        keys.reverse()
    if paging.after is not None:
        found = [keys.index(k) for k in await store.keys_of(owner, paging.after) if k in set(keys)]
        if not found:
            raise unknown_cursor(paging.after)
        keys = keys[found[0] + 1 :]
    items = await store.items(owner, keys[: paging.limit])
    data = [shown(item.type, item.data, paging.include) for item in items]
    more = len(keys) > paging.limit
    return json_answer(show_list([item.id for item in items], data, more=more))


async def _row(request: Request, owner: str) -> ResponseRow:
    response_id = request.path_params["response_id"]
    row = await gateway_of(request).engine.store.response(owner, response_id)
    if row is None:
        raise _not_found(response_id)
    return row


def _refuse_query(request: Request) -> None:
    for name, value in request.query_params.multi_items():
        if name == "stream" and value.lower() == "false":
            continue
        if name in ("include_obfuscation", "stream", "starting_after"):
            raise ApiError(
                400,
                f"The parameter '{name}' is not supported by this server yet.",
                param=name,
                code="unsupported_parameter",
            )


def _not_found(response_id: str) -> ApiError:
    return ApiError(404, f"Response with id '{response_id}' not found.", param="response_id")
