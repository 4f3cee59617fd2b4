"""Which models there are: the configured ones, and what each upstream lists."""

import asyncio
import time
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import structlog

from bascule.upstreams.client import Timeouts, UpstreamFailure, UpstreamRequest
from bascule.upstreams.fetch import fetch
from bascule.upstreams.routing import Router, Upstream

_log = structlog.stdlib.get_logger("bascule.catalog")

_FRESH_SECONDS = 30.0
_TIMEOUTS = Timeouts(connect=2, first_byte=5, idle=5)


class ListedModel(msgspec.Struct):
    id: str
    created: float | None = None
    owned_by: str | None = None


class _List(msgspec.Struct):
    object: str = ""
    data: list[ListedModel] | None = None
    """Ollama says null when it has none."""


_decode = msgspec.json.Decoder(_List).decode


async def list_upstream(
    upstream: Upstream,
    client_key: str | None,
    timeouts: Timeouts = _TIMEOUTS,
    *,
    quiet: bool = False,
) -> list[ListedModel] | None:
    """What the server lists; None if it does not answer as it should, which is logged."""
    request = UpstreamRequest(
        url=f"{upstream.base_url}/models",
        method="GET",
        headers=upstream.headers(client_key),
        timeouts=timeouts,
    )
    try:
        answer = await fetch(upstream.client, request, max_bytes=4 * 1024 * 1024)
        listed = _decode(answer.body) if answer.status == 200 else _List()
    except (UpstreamFailure, msgspec.DecodeError) as e:
        if not quiet:
            name = upstream.section.name
            _log.warning("an upstream does not list its models", upstream=name, error=str(e))
        return None
    return listed.data or ([] if listed.object == "list" else None)


class Catalog:
    """Asks the upstreams, and remembers for half a minute."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._seen: dict[tuple[str, str | None], tuple[float, list[ListedModel] | None]] = {}

    async def models(self, client_key: str | None) -> list[dict[str, Any]]:
        """Model objects as the API lists them, each name once."""
        found: dict[str, dict[str, Any]] = {}
        for name, upstream in self._router.configured():
            found[name] = _shown(ListedModel(name, owned_by=upstream))
        for upstream, models in await self._ask_all(client_key):
            section = upstream.section
            for model in models or ():
                if any(fnmatchcase(model.id, glob) for glob in section.models):
                    model.owned_by = model.owned_by or section.name
                    found.setdefault(model.id, _shown(model))
        return list(found.values())

    async def reachable(self) -> bool:
        return any(models is not None for _, models in await self._ask_all(None))

    async def _ask_all(
        self, client_key: str | None
    ) -> list[tuple[Upstream, list[ListedModel] | None]]:
        upstreams = list(self._router.upstreams.values())
        answers = await asyncio.gather(*(self._ask(u, client_key) for u in upstreams))
        return list(zip(upstreams, answers, strict=True))

    async def _ask(self, upstream: Upstream, client_key: str | None) -> list[ListedModel] | None:
        key = (upstream.section.name, client_key)
        now = time.monotonic()
        seen = self._seen.get(key)
        if seen is not None and now - seen[0] < _FRESH_SECONDS and seen[1] is not None:
            return seen[1]
        models = await list_upstream(upstream, client_key)
        if len(self._seen) > 256:
            self._seen.clear()
        self._seen[key] = (now, models)
        return models


def _shown(model: ListedModel) -> dict[str, Any]:
    return {
        "id": model.id,
        "object": "model",
        "created": int(model.created or 0),
        "owned_by": model.owned_by or "",
    }
