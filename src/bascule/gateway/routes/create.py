"""POST /v1/responses: the hot route, raw ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from bascule.config import Config
from bascule.engine.engine import Engine
from bascule.engine.turn import run_turn
from bascule.gateway.auth import Auth, presented_keys
from bascule.gateway.body import ClientGone, read_body
from bascule.gateway.push import HeaderList, Send, SendWriter, writer_for
from bascule.gateway.relay import Relay, may_relay
from bascule.gateway.sinks import JsonSink, SseSink, error_answer
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses import door
from bascule.upstreams.routing import Router

Receive = Callable[[], Awaitable[Any]]

_log = structlog.stdlib.get_logger("bascule.gateway")


class CreateResponse:
    """Reads the body, starts the turn and lets it write; a client that leaves cancels it."""

    def __init__(self, config: Config, engine: Engine, router: Router, auth: Auth) -> None:
        self._config = config
        self._engine = engine
        self._router = router
        self._auth = auth
        self._forwards_keys = router.forwards_keys
        self._running: set[asyncio.Task[Any]] = set()

    async def __call__(
        self, scope: dict[str, Any], receive: Receive, send: Send, request_id: bytes
    ) -> None:
        writer = writer_for(scope, send)
        headers: HeaderList = [(b"x-request-id", request_id)]
        try:
            turn, leave = await self._prepare(scope, receive, writer, headers)
        except ApiError as e:
            error_answer(writer, e, headers)
            await writer.drained()
            return
        except ClientGone:
            return
        await self._run(turn, leave, writer, receive)

    async def _prepare(
        self, scope: dict[str, Any], receive: Receive, writer: SendWriter, headers: HeaderList
    ) -> tuple[Coroutine[Any, Any, None], Callable[[], None]]:
        owner = self._auth.owner(scope["headers"])
        limits = self._config.limits
        self._check_running()
        body = await read_body(receive, scope["headers"], limits.max_body_bytes)
        self._check_running()  # others may have started while the body came
        request = door.decode(body)
        if len(request.input) > limits.max_items:
            raise invalid(f"The input has more than {limits.max_items} items.", "input")
        keys = presented_keys(scope["headers"]) if self._forwards_keys else ()
        target = self._router.resolve(request.model, keys[0] if keys else None)
        done = self._config.server.sse_done
        if not done and await may_relay(self._engine, request, target):
            relay = Relay(target, writer, headers)
            return relay.run(body, scope["headers"]), _nothing_to_leave
        if request.stream:
            sink = SseSink(writer, headers, done=done, obfuscate=request.wants_obfuscation)
        else:
            sink = JsonSink(writer, headers)
        return run_turn(self._engine, request, target, owner, sink), sink.leave

    def _check_running(self) -> None:
        if len(self._running) >= self._config.limits.max_concurrent_turns:
            raise ApiError(
                503, "Too many turns are running.", code="server_is_overloaded", retry_after="1"
            )

    async def _run(
        self,
        turn: Coroutine[Any, Any, None],
        leave: Callable[[], None],
        writer: SendWriter,
        receive: Receive,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a coroutine runs in a task
        self._running.add(task)
        try:
            await writer.write_by(turn, receive)
        except Exception as e:  # noqa: BLE001 -- the connection must not stay open for nothing
            _log.error("a turn could not be ended", exc_info=e)
            writer.abort()
        finally:
            self._running.discard(task)
            leave()

    async def drain(self) -> None:
        """Wait a moment for turns that were cancelled at the end of the server's patience."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)


def _nothing_to_leave() -> None:
    """A relay holds on to nothing."""
