"""Which models there are: the configured ones, and what each upstream lists and tells of them."""

import asyncio
import time
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec
import structlog

from bascule.upstreams.client import Timeouts, UpstreamFailure, UpstreamRequest
from bascule.upstreams.details import ASKING, TELLING, UNKNOWN, ModelDetails, Server, listed
from bascule.upstreams.fetch import fetch
from bascule.upstreams.routing import Router, Upstream
from bascule.upstreams.target import Target

_log = structlog.stdlib.get_logger("bascule.catalog")

_FRESH_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 10.0
"""For so long a server that did not answer is not asked again."""
_DETAILS_SECONDS: Final = 300.0
_PATIENCE: Final = 1.5
"""Seconds that a listing waits for its servers; what comes later is there the next time."""
_TIMEOUTS: Final = Timeouts(connect=2, first_byte=5, idle=5)
_MOST_KEPT: Final = 1024
_MOST_LEARNING: Final = 8
"""Clients may make up names: what is asked because of them is bounded."""


class ListedModel(msgspec.Struct):
    id: str
    created: float | None = None
    owned_by: str | None = None
    details: ModelDetails = UNKNOWN


class _List(msgspec.Struct):
    object: str = ""
    data: list[msgspec.Raw] | None = None
    """Ollama says null when it has none."""


class _Entry(msgspec.Struct):
    id: str
    created: float | None = None
    owned_by: str | None = None


_decode = msgspec.json.Decoder(_List).decode
_decode_entry = msgspec.json.Decoder(_Entry).decode


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
        answered = _decode(answer.body) if answer.status == 200 else _List()
        models = [_listed(raw) for raw in answered.data or ()]
    except (UpstreamFailure, msgspec.DecodeError) as e:
        if not quiet:
            name = upstream.section.name
            _log.warning("an upstream does not list its models", upstream=name, error=str(e))
        return None
    return models or ([] if answered.object == "list" else None)


def _listed(raw: msgspec.Raw) -> ListedModel:
    entry = _decode_entry(raw)
    details = listed(msgspec.json.decode(raw))
    return ListedModel(entry.id, entry.created, entry.owned_by, details)


class CatalogModel(msgspec.Struct, frozen=True):
    """A model that a client can ask for by `id`."""

    id: str
    created: int
    owned_by: str
    details: ModelDetails

    def shown(self) -> dict[str, Any]:
        """The API's model object; what is known beyond it stands in members of our own."""
        details = self.details
        more = {
            "context_length": details.context_length,
            "max_output_tokens": details.max_output_tokens,
            "input_modalities": details.input,
        }
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": self.owned_by,
            **{name: value for name, value in more.items() if value is not None},
        }


class Catalog:
    """Asks the upstreams, and remembers: lists for half a minute, details for five.

    Asking goes on in the background when it takes longer than a listing can wait. `aclose` ends it.
    """

    def __init__(self, router: Router, patience: float = _PATIENCE) -> None:
        """`patience`: seconds that an answer waits for servers."""
        self._router = router
        self._patience = patience
        self._seen: dict[tuple[str, str | None], tuple[float, list[ListedModel] | None]] = {}
        self._asking: dict[tuple[str, str | None], asyncio.Task[None]] = {}
        self._silent: set[str] = set()
        self._details: dict[tuple[str, str], tuple[float, ModelDetails]] = {}
        self._learning: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def aclose(self) -> None:
        tasks = [*self._asking.values(), *self._learning.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def warm(self) -> None:
        """Begin to ask those that need no client's key; nobody waits for it."""
        for upstream in self._router.upstreams.values():
            if not upstream.forwards_key:
                self._ask(upstream, None)

    # --- lists

    async def models(self, client_key: str | None) -> list[CatalogModel]:
        """All of them, each name once: the configured first."""
        answers = await self._ask_all(client_key)
        listings = {upstream.section.name: models or [] for upstream, models in answers}
        found: dict[str, CatalogModel] = {}
        for name, target in self._router.configured():
            entries = listings[target.upstream]
            entry = next((e for e in entries if e.id == target.model), None)
            found[name] = self._model(name, target, entry or ListedModel(target.model))
        for upstream, entries in answers:
            section = upstream.section
            for entry in entries or ():
                if entry.id not in found and any(fnmatchcase(entry.id, g) for g in section.models):
                    target = self._router.at(section.name, entry.id)
                    found[entry.id] = self._model(entry.id, target, entry)
        return list(found.values())

    async def model(self, name: str, client_key: str | None) -> CatalogModel | None:
        """One of them, by any name that reaches it; with all that its server tells of it."""
        target = self._router.named(name, client_key)
        if target is None:
            return None
        answers = await self._ask_all(client_key, only=target.upstream)
        entries = [entry for _, models in answers for entry in models or ()]
        entry = next((e for e in entries if e.id == target.model), None)
        if entry is None and not target.name:
            return None
        await self._learn(target, client_key)
        return self._model(name, target, entry or ListedModel(target.model))

    async def reachable(self) -> bool:
        return any(models is not None for _, models in await self._ask_all(None))

    def _model(self, name: str, target: Target, entry: ListedModel) -> CatalogModel:
        configured = self._router.details(target.name)
        _, told = self._details.get((target.upstream, target.model), (0, UNKNOWN))
        return CatalogModel(
            name,
            int(entry.created or 0),
            target.upstream if target.name else entry.owned_by or target.upstream,
            configured.over(told).over(entry.details),
        )

    async def _ask_all(
        self, client_key: str | None, only: str | None = None
    ) -> list[tuple[Upstream, list[ListedModel] | None]]:
        upstreams = [u for u in self._router.upstreams.values() if only in (None, u.section.name)]
        started = [task for u in upstreams if (task := self._ask(u, client_key)) is not None]
        if started:
            await asyncio.wait(started, timeout=self._patience)
        nothing: tuple[float, list[ListedModel] | None] = (0.0, None)
        return [(u, self._seen.get(_key(u, client_key), nothing)[1]) for u in upstreams]

    def _ask(self, upstream: Upstream, client_key: str | None) -> asyncio.Task[None] | None:
        """Begin to ask, if it is time; None for a server that is still thinking about the last time."""
        key = _key(upstream, client_key)
        if key in self._asking:
            return None
        at, models = self._seen.get(key, (0.0, None))
        if at and time.monotonic() - at < (_FAILED_SECONDS if models is None else _FRESH_SECONDS):
            return None
        task = self._asking[key] = asyncio.create_task(self._list(upstream, client_key))
        task.add_done_callback(lambda _: self._asking.pop(key, None))
        return task

    async def _list(self, upstream: Upstream, client_key: str | None) -> None:
        name = upstream.section.name
        models = await list_upstream(upstream, client_key, quiet=name in self._silent)
        (self._silent.add if models is None else self._silent.discard)(name)
        if len(self._seen) >= _MOST_KEPT:
            self._seen.clear()
        self._seen[_key(upstream, client_key)] = (time.monotonic(), models)
        if models is not None:
            self._router.learn_list(name, (model.id for model in models))
        for model in models or ():
            if model.details != UNKNOWN and upstream.section.profile not in ASKING:
                self._keep((name, model.id), model.details)

    # --- details

    def wish(self, target: Target, client_key: str | None = None) -> None:
        """A turn goes to this model: what its server tells of it is wanted for the next one."""
        if not self._due(target) or len(self._learning) >= _MOST_LEARNING:
            return
        if self._router.upstreams[target.upstream].section.profile in TELLING:
            self._start(target, client_key)

    async def _learn(self, target: Target, client_key: str | None) -> None:
        key = (target.upstream, target.model)
        task = self._learning.get(key)
        if task is None and self._due(target):
            task = self._start(target, client_key)
        if task is not None:
            await asyncio.wait([task], timeout=self._patience)

    def _due(self, target: Target) -> bool:
        key = (target.upstream, target.model)
        at, _ = self._details.get(key, (0.0, UNKNOWN))
        known = at and time.monotonic() - at < _DETAILS_SECONDS
        return not known and key not in self._learning

    def _start(self, target: Target, client_key: str | None) -> asyncio.Task[None]:
        key = (target.upstream, target.model)
        task = self._learning[key] = asyncio.create_task(self._told(target, client_key))
        task.add_done_callback(lambda _: self._learning.pop(key, None))
        return task

    async def _told(self, target: Target, client_key: str | None) -> None:
        upstream = self._router.upstreams[target.upstream]
        pending = self._asking.get(_key(upstream, client_key))
        if pending is not None:
            await asyncio.wait([pending], timeout=self._patience)
        answers = await self._ask_all(client_key, only=target.upstream)
        entries = [entry for _, models in answers for entry in models or ()]
        details = next((e.details for e in entries if e.id == target.model), UNKNOWN)
        ask = ASKING.get(upstream.section.profile)
        if ask is not None:
            server = Server(upstream.base_url, upstream.headers(client_key), upstream.client)
            details = (await ask(server, target.model)).over(details)
        self._keep((target.upstream, target.model), details)

    def _keep(self, key: tuple[str, str], details: ModelDetails) -> None:
        if len(self._details) >= _MOST_KEPT:
            self._details.clear()
        self._details[key] = (time.monotonic(), details)
        self._router.learn(*key, details)


def _key(upstream: Upstream, client_key: str | None) -> tuple[str, str | None]:
    return upstream.section.name, client_key if upstream.forwards_key else None
