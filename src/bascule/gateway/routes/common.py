"""What the routes share."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from bascule.gateway.app import Gateway


def gateway_of(request: Request) -> "Gateway":
    gateway: Gateway = request.app.state.gateway
    return gateway


def json_answer(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")
