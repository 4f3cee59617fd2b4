"""The gateway as an ASGI application: where all parts meet."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bascule.config import Config
from bascule.engine.engine import Engine
from bascule.gateway.access import AccessLog
from bascule.gateway.auth import Auth
from bascule.gateway.push import Send
from bascule.gateway.routes.conversation_items import add_items, delete_item, get_item, list_items
from bascule.gateway.routes.conversations import (
    create_conversation,
    delete_conversation,
    get_conversation,
    update_conversation,
)
from bascule.gateway.routes.create import CreateResponse
from bascule.gateway.routes.health import health, ready, root
from bascule.gateway.routes.input_tokens import input_tokens
from bascule.gateway.routes.metrics import metrics, metrics_keys
from bascule.gateway.routes.models import get_model, list_models
from bascule.gateway.routes.openapi import openapi
from bascule.gateway.routes.stored import delete_response, get_response, list_input_items
from bascule.protocols.errors import ApiError
from bascule.protocols.ids import mint
from bascule.protocols.responses import door
from bascule.state.store import StoreError
from bascule.upstreams.catalog import Catalog
from bascule.upstreams.routing import Router

_log = structlog.stdlib.get_logger("bascule.gateway")

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]

_SANE_ID: Final = re.compile(rb"[\w.:-]{1,128}")


_RESPONSE: Final = "/v1/responses/{response_id}"
_CONVERSATION: Final = "/v1/conversations/{conversation_id}"


class Gateway:
    """The ASGI application. `close` is called at its shutdown."""

    def __init__(
        self,
        config: Config,
        *,
        engine: Engine,
        router: Router,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.config = config
        self.engine = engine
        self.router = router
        self.auth = Auth(config.server.api_keys)
        self.metrics_auth = Auth(metrics_keys(config))
        self.catalog = Catalog(router)
        self._close = close
        self._create = CreateResponse(config, engine, router, self.auth, self.catalog.wish)
        self._others = self._starlette()
        self._access = AccessLog(engine.observer, self._others.routes)

    def _starlette(self) -> Starlette:
        app = Starlette(
            routes=[
                Route("/v1/responses/input_tokens", input_tokens, methods=["POST"]),
                Route(_RESPONSE, get_response, methods=["GET"]),
                Route(_RESPONSE, delete_response, methods=["DELETE"]),
                Route(f"{_RESPONSE}/input_items", list_input_items, methods=["GET"]),
                Route("/v1/conversations", create_conversation, methods=["POST"]),
                Route(_CONVERSATION, get_conversation, methods=["GET"]),
                Route(_CONVERSATION, update_conversation, methods=["POST"]),
                Route(_CONVERSATION, delete_conversation, methods=["DELETE"]),
                Route(f"{_CONVERSATION}/items", add_items, methods=["POST"]),
                Route(f"{_CONVERSATION}/items", list_items, methods=["GET"]),
                Route(f"{_CONVERSATION}/items/{{item_id}}", get_item, methods=["GET"]),
                Route(f"{_CONVERSATION}/items/{{item_id}}", delete_item, methods=["DELETE"]),
                Route("/v1/models", list_models, methods=["GET"]),
                Route("/v1/models/{model_id:path}", get_model, methods=["GET"]),
                Route("/health", health, methods=["GET"]),
                Route("/ready", ready, methods=["GET"]),
                Route("/metrics", metrics, methods=["GET"]),
                Route("/openapi.json", openapi, methods=["GET"]),
                Route("/", root, methods=["GET"]),
                # Served by the hot route; here so that other methods get a 405.
                Route("/v1/responses", root, methods=["POST"]),
            ],
            exception_handlers={
                ApiError: _api_error,
                StoreError: _store_error,
                HTTPException: _http_error,
                Exception: _server_error,
            },
        )
        app.router.redirect_slashes = False
        app.state.gateway = self
        return app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await _refuse_websocket(send)
            return
        request_id = _request_id(scope["headers"])
        if scope["path"] == "/v1/responses" and scope["method"] == "POST":
            access = self._access.begin(scope, request_id, "/v1/responses")
            await self._create(scope, receive, send, request_id, access)
            return
        scope["request_id"] = request_id
        access = self._access.begin(scope, request_id)

        async def tagged(message: Any) -> None:
            if message["type"] == "http.response.start":
                access.status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        try:
            await self._others(scope, receive, tagged)
        finally:
            access.end()

    @property
    def draining(self) -> bool:
        """Whether new turns are refused because the server is about to stop."""
        return self._create.draining

    @property
    def running_turns(self) -> int:
        return self._create.running

    def drain(self) -> None:
        """Refuse new turns from now on; those under way go on."""
        self._create.draining = True

    def cut(self) -> None:
        """End the turns under way: each fails, and says so."""
        self._create.cut()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if len(self.router.upstreams) > 1:
                    self.catalog.warm()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._create.drain()
                await self.catalog.aclose()
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _request_id(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The client's, if it is sane, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return value
    return mint("req").encode()


def _answer(error: ApiError) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": error.retry_after}
    return Response(door.encode_error(error), error.status, headers, media_type="application/json")


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 -- registered for this type
    return _answer(error)


async def _store_error(_: Request, error: Exception) -> Response:
    _log.error("the store failed", error=str(error))
    return _answer(ApiError(500, "The stored state cannot be reached.", code="server_error"))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 -- registered for this type
    path, method = request.url.path, request.method
    if error.status_code == 404:
        known = ApiError(404, f"Unknown request URL: {method} {path}.", code="unknown_url")
    elif error.status_code == 405:
        known = ApiError(405, f"Not allowed to {method} on {path}.", code="method_not_supported")
    else:
        known = ApiError(error.status_code, error.detail)
    answer = _answer(known)
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def _server_error(_: Request, error: Exception) -> Response:
    _log.error("request failed", exc_info=error)
    return _answer(ApiError(500, "The server had an internal error.", code="server_error"))


async def _refuse_websocket(send: Send) -> None:
    await send({"type": "websocket.close", "code": 1000})
