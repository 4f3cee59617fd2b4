"""GET /v1/models and /v1/models/{id}."""

from starlette.requests import Request
from starlette.responses import Response

from bascule.gateway.auth import presented_keys
from bascule.gateway.codex_catalog import codex_catalog
from bascule.gateway.routes.common import gateway_of, json_answer
from bascule.protocols import json
from bascule.upstreams.routing import model_not_found


async def list_models(request: Request) -> Response:
    """Configured names and aliases, and what the upstreams say they have. With `client_version` in
    the shape of Codex's catalog."""
    gateway = gateway_of(request)
    gateway.auth.owner(request.headers.raw)
    models = await gateway.catalog.models(_key(request))
    if "client_version" in request.query_params:
        return json_answer(json.encode(codex_catalog(models, gateway.router)))
    shown = [model.shown() for model in models]
    return json_answer(json.encode({"object": "list", "data": shown}))


async def get_model(request: Request) -> Response:
    """One model, by any name that reaches it but as the default. ApiError 404."""
    gateway = gateway_of(request)
    gateway.auth.owner(request.headers.raw)
    name: str = request.path_params["model_id"]
    model = await gateway.catalog.model(name, _key(request))
    if model is None:
        raise model_not_found(name)
    return json_answer(json.encode(model.shown()))


def _key(request: Request) -> str | None:
    keys = presented_keys(request.headers.raw)
    return keys[0] if keys else None
