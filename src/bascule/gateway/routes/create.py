"""POST /v1/responses: the hot route, raw ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from bascule.config import Config
from bascule.engine.engine import Engine
from bascule.engine.turn import run_turn
from bascule.gateway.access import Access
from bascule.gateway.auth import Auth, presented_keys
from bascule.gateway.body import ClientGone, read_body
from bascule.gateway.push import HeaderList, Send, SendWriter, writer_for
from bascule.gateway.relay import Relay, may_relay
from bascule.gateway.sinks import JsonSink, SseSink, error_answer
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses import door
from bascule.telemetry.observe import TurnObserver
from bascule.upstreams.routing import Router
from bascule.upstreams.target import Target

Wish = Callable[[Target, str | None], None]
Receive = Callable[[], Awaitable[Any]]

_log = structlog.stdlib.get_logger("bascule.gateway")


@dataclass(frozen=True, slots=True)
class _Running:
    """What answers a request, and what is to be said and done when it has."""

    turn: Coroutine[Any, Any, None]
    leave: Callable[[], None]
    observed: TurnObserver


class CreateResponse:
    """Reads the body, starts the turn and lets it write; a client that leaves cancels it."""

    def __init__(
        self, config: Config, engine: Engine, router: Router, auth: Auth, wish: Wish
    ) -> None:
        """`wish` is told of each target that a turn goes to."""
        self._wish = wish
        self._config = config
        self._engine = engine
        self._router = router
        self._auth = auth
        self._forwards_keys = router.forwards_keys
        self._running: set[asyncio.Task[Any]] = set()
        self.draining = False
        """Whether new turns are refused because the server is about to stop."""

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Receive,
        send: Send,
        request_id: bytes,
        access: Access,
    ) -> None:
        writer = writer_for(scope, send)
        headers: HeaderList = [(b"x-request-id", request_id)]
        observed = None
        try:
            running = await self._prepare(scope, receive, writer, headers)
            observed = running.observed
            await self._run(running, writer, receive)
        except ApiError as e:
            if self.draining:
                headers.append((b"connection", b"close"))  # the next try may reach another server
            error_answer(writer, e, headers)
            await writer.drained()
        except ClientGone:
            return
        finally:
            if observed is not None:
                observed.end("cancelled", None)  # unless it has ended: its client was gone at once
            access.status = writer.status
            access.end(observed)

    async def _prepare(
        self, scope: dict[str, Any], receive: Receive, writer: SendWriter, headers: HeaderList
    ) -> _Running:
        owner = self._auth.owner(scope["headers"])
        limits = self._config.limits
        self._check_running()
        body = await read_body(receive, scope["headers"], limits.max_body_bytes)
        self._check_running()  # others may have started while the body came
        request = door.decode(body)
        if len(request.input) > limits.max_items:
            raise invalid(f"The input has more than {limits.max_items} items.", "input")
        keys = presented_keys(scope["headers"]) if self._forwards_keys else ()
        key = keys[0] if keys else None
        target = self._router.resolve(request.model, key)
        self._wish(target, key)
        target.check_output(request.max_output_tokens)
        done = self._config.server.sse_done
        if not done and await may_relay(self._engine, request, target):
            observed = self._engine.observer.turn(target, stream=request.stream)
            relay = Relay(target, writer, headers, observed)
            return _Running(relay.run(body, scope["headers"]), relay.leave, observed)
        if request.stream:
            sink = SseSink(writer, headers, done=done, obfuscate=request.wants_obfuscation)
        else:
            sink = JsonSink(writer, headers)
        observed = self._engine.observer.turn(target, stream=request.stream)
        turn = run_turn(self._engine, request, target, owner, sink, observed)
        return _Running(turn, sink.leave, observed)

    @property
    def running(self) -> int:
        """How many turns are under way."""
        return len(self._running)

    def _check_running(self) -> None:
        if self.draining:
            raise ApiError(503, "The server is shutting down.", retry_after="1")
        if len(self._running) >= self._config.limits.max_concurrent_turns:
            raise ApiError(
                503, "Too many turns are running.", code="server_is_overloaded", retry_after="1"
            )

    async def _run(
        self,
        running: _Running,
        writer: SendWriter,
        receive: Receive,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a coroutine runs in a task
        self._running.add(task)
        try:
            await writer.write_by(running.turn, receive)
        except Exception as e:  # noqa: BLE001 -- the connection must not stay open for nothing
            _log.error("a turn could not be ended", exc_info=e)
            writer.abort()
        finally:
            self._running.discard(task)
            running.leave()

    def cut(self) -> None:
        """End the turns under way: each fails, and says so."""
        self._engine.closing = True
        for task in self._running:
            task.cancel()

    async def drain(self) -> None:
        """Wait a moment for turns that go on beyond the end of the server's patience."""
        self.cut()
        if tasks := list(self._running):
            await asyncio.wait(tasks, timeout=5)
