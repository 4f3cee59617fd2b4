"""Is the gateway there, and can it work?"""

from starlette.requests import Request
from starlette.responses import Response

from bascule.gateway.routes.common import gateway_of, json_answer
from bascule.protocols import json
from bascule.state.store import StoreError


async def health(_: Request) -> Response:
    """The process answers; asks nobody."""
    return json_answer(b'{"status":"ok"}')


async def ready(request: Request) -> Response:
    """The store can be read and at least one upstream answers; 503 says what does not, or that
    the server is about to stop."""
    gateway = gateway_of(request)
    if gateway.draining:
        return json_answer(b'{"status":"draining","missing":[]}', 503)
    missing: list[str] = []
    try:
        await gateway.engine.store.response("", "resp_ready")
    except StoreError:
        missing.append("state")
    if not await gateway.catalog.reachable():
        missing.append("upstreams")
    status = "unavailable" if missing else "ready"
    # What tools depend on is told, and no reason to take the gateway out of service.
    tools = gateway.engine.handlers.health()
    body = json.encode({"status": status, "missing": missing, "tools": tools})
    return json_answer(body, 503 if missing else 200)


async def root(_: Request) -> Response:
    """What clients ask before they begin."""
    return json_answer(b'{"name":"bascule"}')
