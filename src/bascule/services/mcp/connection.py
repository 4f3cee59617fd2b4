"""One connection to one server. A task of its own enters and leaves it, as the SDK needs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Final, TypeVar

import anyio
import structlog
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp_types import (
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    LoggingMessageNotificationParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bascule.services.egress import Guard
from bascule.services.mcp.content import Content, McpResult, McpTool
from bascule.services.mcp.errors import McpError, closed, timed_out
from bascule.services.mcp.faults import translated
from bascule.services.mcp.reading import content_of, result_of, tool_of
from bascule.services.mcp.server import McpServer
from bascule.services.mcp.transport import Streams, event_stream, last_error, pipes, streamable

_log = structlog.stdlib.get_logger("bascule.mcp")

T = TypeVar("T")

MAX_PAGES: Final = 50
MAX_TOOLS: Final = 2000
_OLDER: Final = (400, 404, 405, 406, 415)
"""What servers that know the older transport only answer to a POST."""
_CLOSING: Final = 10.0
"""Seconds for a server to go away."""


class Connection:
    """`open` once; then calls may overlap. One that fails with `lost` needs a new connection."""

    def __init__(self, server: McpServer, guard: Guard | None, max_bytes: int) -> None:
        self.server = server
        self._guard = guard
        self._max_bytes = max_bytes
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._listing: asyncio.Task[tuple[list[McpTool], bool]] | None = None
        self.dead = False

    async def open(self) -> None:
        """Raises McpError."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(opened))
        try:
            with anyio.fail_after(self.server.connect_timeout):
                await asyncio.shield(opened)
        except TimeoutError:
            await self.close()
            raise timed_out("answer", self.server.connect_timeout) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Leaves nothing behind; a server that does not go is left to its fate after some seconds."""
        self.dead = True
        self._stop.set()
        if self._listing is not None:
            self._listing.cancel()
        task = self._task
        if task is None or task.done():
            return
        if self._client is None:
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=_CLOSING)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSING)

    # --- the owner task

    async def _run(self, opened: asyncio.Future[None]) -> None:
        statuses: list[int] = []
        last_error.set(statuses)  # of this task alone
        try:
            if self.server.command is not None:
                await self._serve(pipes(self.server, self._ended), opened)
                return
            args = (self.server, self._guard, self._max_bytes, self._ended)
            try:
                await self._serve(streamable(*args), opened)
            except Exception as e:
                if opened.done() or not statuses or statuses[-1] not in _OLDER:
                    raise
                _log.debug("an older transport", server=self.server.shown, why=str(translated(e)))
                self.dead = False
                await self._serve(event_stream(*args), opened)
        except asyncio.CancelledError:
            if not opened.done():
                opened.set_exception(closed())
                opened.exception()
            raise
        except Exception as e:  # noqa: BLE001 -- told to whoever waits, or logged
            fault = translated(e, statuses[-1] if statuses else None)
            if opened.done():
                _log.info("a connection ended", server=self.server.shown, error=fault.message)
            else:
                opened.set_exception(fault)
        finally:
            self.dead = True

    async def _serve(
        self, transport: AbstractAsyncContextManager[Streams], opened: asyncio.Future[None]
    ) -> None:
        client = Client(
            transport,
            cache=None,
            client_info=Implementation(name="bascule", version=version("bascule")),
            message_handler=self._notified,
            logging_callback=self._logged,
            elicitation_callback=_decline,
        )
        async with client:
            self._client = client
            if not opened.done():
                opened.set_result(None)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                await self._listen(client)
            await self._stop.wait()

    async def _listen(self, client: Client) -> None:
        """Since 2026-07-28 a server tells of changes only those who ask."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        stop = asyncio.create_task(self._stop.wait())
        changes = asyncio.create_task(self._changes(client))
        try:
            await asyncio.wait([stop, changes], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            changes.cancel()
            await asyncio.wait([stop, changes])
            if not changes.cancelled() and (fault := changes.exception()) is not None:
                _log.debug("no news of tools", server=self.server.shown, error=str(fault))

    async def _changes(self, client: Client) -> None:
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                self._changed()

    def _ended(self) -> None:
        self.dead = True

    async def _notified(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed()

    def _changed(self) -> None:
        self._listing = None

    async def _logged(self, params: LoggingMessageNotificationParams) -> None:
        _log.debug("a server says", server=self.server.shown, line=str(params.data)[:500])

    # --- what it can do

    async def listing(self) -> tuple[list[McpTool], bool]:
        """The server's tools, all pages, and whether it has resources; asked once until it says that
        they changed. Raises McpError."""
        if self._listing is None or (
            self._listing.done()
            and (self._listing.cancelled() or self._listing.exception() is not None)
        ):
            self._listing = asyncio.create_task(self._list())
        listing = self._listing
        try:
            return await asyncio.shield(listing)
        except asyncio.CancelledError:
            if listing.cancelled():
                raise closed() from None
            raise

    async def _list(self) -> tuple[list[McpTool], bool]:
        tools: list[McpTool] = []
        seen: set[str] = set()
        cursor: str | None = None
        seconds = self.server.connect_timeout
        for _ in range(MAX_PAGES):
            page = await self._asked(
                lambda client, at=cursor: client.list_tools(cursor=at), seconds, "list its tools"
            )
            tools += [tool_of(tool) for tool in page.tools]
            if len(tools) > MAX_TOOLS:
                raise McpError(
                    "protocol_error",
                    "too_many_tools",
                    f"The MCP server has more than {MAX_TOOLS} tools.",
                )
            cursor = page.next_cursor
            if cursor is None:
                return tools, await self._has_resources(seconds)
            if cursor in seen:
                told = "The MCP server's list of tools goes round in a circle."
                raise McpError("protocol_error", "repeated_cursor", told)
            seen.add(cursor)
        told = f"The MCP server's list of tools has more than {MAX_PAGES} pages."
        raise McpError("protocol_error", "too_many_pages", told)

    async def _has_resources(self, seconds: float) -> bool:
        if self._client is None or self._client.server_capabilities.resources is None:
            return False
        try:
            page = await self._asked(lambda client: client.list_resources(), seconds, "answer")
        except McpError as e:
            if e.lost:
                raise
            _log.debug("no resources", server=self.server.shown, error=e.message)
            return False
        return bool(page.resources)

    async def call(
        self, name: str, arguments: dict[str, Any], seconds: float, hard_limit: float
    ) -> McpResult:
        """Run a tool. Each sign of progress gives it `seconds` more, up to `hard_limit`.
        Raises McpError."""
        end = anyio.current_time() + hard_limit
        with anyio.CancelScope(deadline=min(anyio.current_time() + seconds, end)) as scope:

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = min(anyio.current_time() + seconds, end)

            result = await self._asked(
                lambda client: client.call_tool(name, arguments, progress_callback=progress),
                None,
                "answer",
            )
            return result_of(result)
        whole = anyio.current_time() >= end
        raise timed_out("end the call" if whole else "answer", hard_limit if whole else seconds)

    async def resources(
        self, cursor: str | None, seconds: float
    ) -> tuple[list[Content], str | None]:
        """A page of the server's resources, and where the next one begins. Raises McpError."""
        page = await self._asked(
            lambda client: client.list_resources(cursor=cursor), seconds, "list its resources"
        )
        listed = [
            Content("link", uri=str(r.uri), name=r.name, mime_type=r.mime_type, text=r.description)
            for r in page.resources
        ]
        return listed, page.next_cursor

    async def read(self, uri: str, seconds: float) -> list[Content]:
        """A resource's contents. Raises McpError."""
        result = await self._asked(lambda client: client.read_resource(uri), seconds, "answer")
        return [content_of(part) for part in result.contents]

    async def _asked(
        self, ask: Callable[[Client], Awaitable[T]], seconds: float | None, what: str
    ) -> T:
        client, task = self._client, self._task
        if client is None or task is None or self.dead:
            raise closed()
        statuses: list[int] = []
        before = last_error.set(statuses)
        try:
            with anyio.fail_after(seconds):
                return await self._or_lost(ask(client), task)
        except TimeoutError:
            raise timed_out(what, seconds or 0) from None
        except Exception as e:
            fault = translated(e, statuses[-1] if statuses else None)
            self.dead = self.dead or fault.lost
            raise fault from e
        finally:
            last_error.reset(before)

    async def _or_lost(self, asked: Awaitable[T], owner: "asyncio.Task[None]") -> T:
        """The answer, or the connection's end if that comes first."""
        answer = asyncio.ensure_future(asked)
        try:
            await asyncio.wait([answer, owner], return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise closed()
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer], timeout=_CLOSING)


async def _decline(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Nobody is there who could be asked."""
    return ElicitResult(action="decline")
