"""GET /openapi.json: open to all, as it holds nothing of this gateway but its version."""

import functools

from starlette.requests import Request
from starlette.responses import Response

from bascule import __version__
from bascule.gateway.openapi import document
from bascule.gateway.routes.common import json_answer
from bascule.protocols import json


async def openapi(_: Request) -> Response:
    """The document."""
    return json_answer(_encoded())


@functools.cache
def _encoded() -> bytes:
    return json.encode(document(__version__))
