"""GET /v1/models."""

from starlette.requests import Request
from starlette.responses import Response

from bascule.gateway.auth import presented_keys
from bascule.gateway.routes.common import gateway_of, json_answer
from bascule.protocols import json


async def list_models(request: Request) -> Response:
    """Configured names and aliases, and what the upstreams say they have."""
    gateway = gateway_of(request)
    gateway.auth.owner(request.headers.raw)
    keys = presented_keys(request.headers.raw)
    models = await gateway.catalog.models(keys[0] if keys else None)
    return json_answer(json.encode({"object": "list", "data": models}))
