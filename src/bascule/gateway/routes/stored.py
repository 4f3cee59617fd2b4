"""GET and DELETE /v1/responses/{id}."""

from starlette.requests import Request
from starlette.responses import Response

from bascule.gateway.routes.common import gateway_of, json_answer
from bascule.protocols import json
from bascule.protocols.errors import ApiError
from bascule.protocols.responses.response import with_output


async def get_response(request: Request) -> Response:
    """The stored response. ApiError 404."""
    gateway = gateway_of(request)
    owner = gateway.auth.owner(request.headers.raw)
    response_id = request.path_params["response_id"]
    _refuse_query(request)
    store = gateway.engine.store
    row = await store.response(owner, response_id)
    if row is None:
        raise _not_found(response_id)
    items = await store.items(owner, row.output)
    return json_answer(with_output(row.snapshot, [item.data for item in items]))


async def delete_response(request: Request) -> Response:
    """ApiError 404."""
    gateway = gateway_of(request)
    owner = gateway.auth.owner(request.headers.raw)
    response_id = request.path_params["response_id"]
    if not await gateway.engine.store.delete_response(owner, response_id):
        raise _not_found(response_id)
    return json_answer(json.encode({"id": response_id, "object": "response", "deleted": True}))


def _refuse_query(request: Request) -> None:
    for name, value in request.query_params.multi_items():
        if name == "stream" and value.lower() == "false":
            continue
        name = name.removesuffix("[]")
        if name in ("include", "include_obfuscation", "stream", "starting_after"):
            raise ApiError(
                400,
                f"The parameter '{name}' is not supported by this server yet.",
                param=name,
                code="unsupported_parameter",
            )


def _not_found(response_id: str) -> ApiError:
    return ApiError(404, f"Response with id '{response_id}' not found.", param="response_id")
