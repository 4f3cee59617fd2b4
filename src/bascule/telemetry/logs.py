"""Log lines: one form for the gateway's own and for those of the libraries.

A line holds names, ids and numbers. The message of an exception is left out unless its class says
that it is harmless: others may quote a prompt, a tool's arguments or a key.
"""

import logging
import sqlite3
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Any, Final, Literal, TextIO

import structlog

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

_MAX_CHAIN: Final = 5
_MAX_FRAMES: Final = 30


def configure_logging(form: Form, level: Level = "info", stream: TextIO | None = None) -> None:
    """Log lines go to stderr; stdout is for what a command answers."""
    out = sys.stderr if stream is None else stream
    render: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        _show_exception,
    ]
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    handler.addFilter(_first_line_of_asyncio)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.ERROR if level == "error" else logging.WARNING)


def bind_request(request_id: str) -> None:
    """From here on each line of this task, and of the tasks that it starts, names the request."""
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=request_id)


def _first_line_of_asyncio(record: logging.LogRecord) -> bool:
    """Below it asyncio shows the task, and with it the message of what was raised."""
    if record.name == "asyncio":
        record.msg = record.getMessage().partition("\n")[0]
        record.args = ()
    return True


def _show_exception(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """`exc_info` as text: classes and places; messages of the harmless only."""
    given: Any = event.pop("exc_info", None)
    if given is True:
        given = sys.exc_info()
    error: object = given[1] if isinstance(given, tuple) else given  # pyright: ignore[reportUnknownVariableType]
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_lines(error))
    return event


def _lines(error: BaseException) -> Iterator[str]:
    at: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if at is None:
            return
        if at is not error:
            yield "caused by"
        yield from _frames(at.__traceback__)
        yield describe(at)
        if isinstance(at, BaseExceptionGroup):
            for inner in at.exceptions[:_MAX_CHAIN]:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                yield f"  of which {describe(inner)}"  # pyright: ignore[reportUnknownArgumentType]
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def _frames(trace: TracebackType | None) -> Iterator[str]:
    for frame in traceback.extract_tb(trace)[-_MAX_FRAMES:]:
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"


def describe(error: BaseException) -> str:
    """An exception in a few words that may stand in a log."""
    name = type(error).__name__
    if isinstance(error, OSError):
        return f"{name}: {error.strerror}" if error.strerror else name
    harmless = isinstance(error, sqlite3.Error) or getattr(type(error), "loggable", False)
    return f"{name}: {error}" if harmless else name
