"""POST /v1/responses/input_tokens."""

from starlette.requests import Request
from starlette.responses import Response

from bascule.engine.counting import count_input_tokens
from bascule.gateway.auth import presented_keys
from bascule.gateway.body import read_body
from bascule.gateway.routes.common import gateway_of, json_answer, owner_of, with_ignored
from bascule.protocols.errors import invalid
from bascule.protocols.responses import door

ESTIMATE = "the number of tokens is an estimate: the model's server does not count them"


async def input_tokens(request: Request) -> Response:
    """The tokens that a turn with this body would read. Raises what the turn would."""
    gateway, owner = gateway_of(request), owner_of(request)
    limits = gateway.config.limits
    body = await read_body(request.receive, request.headers.raw, limits.max_body_bytes)
    asked = door.decode(body)
    if len(asked.input) > limits.max_items:
        raise invalid(f"The input has more than {limits.max_items} items.", "input")
    keys = presented_keys(request.headers.raw)
    target = gateway.router.resolve(asked.model, keys[0] if keys else None)
    count, estimated = await count_input_tokens(gateway.engine, asked, target, owner)
    answer = json_answer(b'{"object":"response.input_tokens","input_tokens":%d}' % count)
    if estimated:
        answer.headers["x-bascule-warnings"] = ESTIMATE
    return with_ignored(answer, asked.ignored)
