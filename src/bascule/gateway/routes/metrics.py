"""GET /metrics, for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response

from bascule.config import Config, Secret
from bascule.gateway.routes.common import gateway_of
from bascule.protocols.errors import ApiError


def metrics_keys(config: Config) -> tuple[Secret, ...]:
    """What opens the metrics: names of upstreams and models and how much they are used are nobody's
    business who may not use them. A key of its own spares the scraper one that does more."""
    own = config.telemetry.metrics_key
    return config.server.api_keys if own is None else (own, *config.server.api_keys)


async def metrics(request: Request) -> Response:
    """All metrics in the text form that the scraper accepts. ApiError 401."""
    gateway = gateway_of(request)
    gateway.metrics_auth.owner(request.headers.raw)
    known = gateway.engine.observer.metrics
    if known is None:
        raise ApiError(404, "This gateway keeps no metrics.", code="unknown_url")
    body, content_type = known.expose(request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})
