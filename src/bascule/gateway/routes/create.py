"""POST /v1/responses: the hot route, raw ASGI."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from bascule.config import Config
from bascule.engine.turn import Engine, run_turn
from bascule.gateway.auth import Auth, presented_keys
from bascule.gateway.body import ClientGone, read_body
from bascule.gateway.push import HeaderList, Send, SendWriter, writer_for
from bascule.gateway.sinks import JsonSink, SseSink, error_answer
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses import door
from bascule.upstreams.routing import Router

Receive = Callable[[], Awaitable[Any]]

_log = structlog.stdlib.get_logger("bascule.gateway")


class CreateResponse:
    """The route's task reads the body, starts the turn and waits until the answer is finished or the
    client has gone; the turn runs in a task of its own and writes by itself."""

    def __init__(self, config: Config, engine: Engine, router: Router, auth: Auth) -> None:
        self._config = config
        self._engine = engine
        self._router = router
        self._auth = auth
        self._forwards_keys = router.forwards_keys
        self._turns: set[asyncio.Task[None]] = set()

    async def __call__(
        self, scope: dict[str, Any], receive: Receive, send: Send, request_id: bytes
    ) -> None:
        writer = writer_for(scope, send)
        headers: HeaderList = [(b"x-request-id", request_id)]
        try:
            task, sink = await self._start(scope, receive, writer, headers)
        except ApiError as e:
            error_answer(writer, e, headers)
            await writer.drained()
            return
        except ClientGone:
            return
        try:
            # Whichever comes first: the answer is complete, or the client has gone.
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            sink.leave()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _start(
        self, scope: dict[str, Any], receive: Receive, writer: SendWriter, headers: HeaderList
    ) -> tuple[asyncio.Task[None], SseSink | JsonSink]:
        owner = self._auth.owner(scope["headers"])
        limits = self._config.limits
        if len(self._turns) >= limits.max_concurrent_turns:
            raise ApiError(
                503, "Too many turns are running.", code="server_is_overloaded", retry_after="1"
            )
        body = await read_body(receive, scope["headers"], limits.max_body_bytes)
        request = door.decode(body)
        if len(request.input) > limits.max_items:
            raise invalid(f"The input has more than {limits.max_items} items.", "input")
        keys = presented_keys(scope["headers"]) if self._forwards_keys else ()
        target = self._router.resolve(request.model, keys[0] if keys else None)
        if request.stream:
            sink = SseSink(writer, headers, done=self._config.server.sse_done)
        else:
            sink = JsonSink(writer, headers)
        turn = run_turn(self._engine, request, target, owner, sink)
        task = asyncio.get_running_loop().create_task(turn)
        self._turns.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._turns.discard(task)
            if not task.cancelled() and (fault := task.exception()) is not None:
                _log.error("a turn could not be ended", exc_info=fault)
                writer.abort()

        task.add_done_callback(ended)
        return task, sink

    async def drain(self) -> None:
        """Cancel what still runs at the end of the time that the server gave it."""
        tasks = list(self._turns)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
