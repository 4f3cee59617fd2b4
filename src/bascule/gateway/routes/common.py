"""What the routes share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from bascule.gateway.sinks import header_list

if TYPE_CHECKING:
    from bascule.gateway.app import Gateway


def gateway_of(request: Request) -> "Gateway":
    gateway: Gateway = request.app.state.gateway
    return gateway


def owner_of(request: Request) -> str:
    """Whose state the request may see. ApiError 401."""
    return gateway_of(request).auth.owner(request.headers.raw)


def with_ignored(answer: Response, ignored: Sequence[str]) -> Response:
    """The answer, which names the fields that were tolerated."""
    if ignored:
        answer.headers["x-bascule-ignored"] = header_list(ignored).decode()
    return answer


def json_answer(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")
