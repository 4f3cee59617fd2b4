"""Log lines: one form for the gateway's own and for those of the libraries.

A line holds names, ids and numbers; of a tool its type, and more only where that is configured. The
message of an exception is left out unless its class says that it is harmless: others may quote a
prompt, a tool's arguments or a key.
"""

import logging
import re
import sqlite3
import sys
import time
import traceback
from collections.abc import Iterator, MutableMapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, TextIO

import msgspec
import structlog

from bascule.telemetry.forms import Form, Level

_log = structlog.stdlib.get_logger("bascule.access")

_PLAIN: Final = re.compile(r"[ !#-&(-\[\]-~]+")
_WORD: Final = re.compile(r"[!#-&(-<>-\[\]-~]+")
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
        _name_request,
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
    lines.configure(form, level, out)
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


_request: ContextVar[str] = ContextVar("bascule_request_id", default="")


def bind_request(request_id: str) -> None:
    """From here on each line of this task, and of the tasks that it starts, names the request."""
    _request.set(request_id)


def request_id() -> str:
    """Of the request that is served here; empty outside of one."""
    return _request.get()


def _name_request(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if known := _request.get():
        event["request_id"] = known
    return event


class Lines:
    """Writes the one line that each request leaves, in the configured form.

    The general way through structlog takes 40 µs for such a line, a third of a small turn; this one a
    tenth of that. It is used where nobody watches in colours.
    """

    def __init__(self) -> None:
        self._out: TextIO | None = None
        self._form: Form = "text"
        self._second = 0
        self._stamp = ""

    def configure(self, form: Form, level: Level, out: TextIO) -> None:
        fast = level in ("debug", "info") and not (form == "text" and out.isatty())
        self._form, self._out = form, out if fast else None

    def info(self, event: str, fields: dict[str, Any]) -> None:
        """`fields` hold texts, numbers and None."""
        out = self._out
        if out is None:
            _log.info(event, **fields)
            return
        known = _request.get()
        if self._form == "json":
            fields["event"], fields["request_id"] = event, known
            fields["level"], fields["timestamp"] = "info", self._now()
            out.write(msgspec.json.encode(fields).decode() + "\n")
            return
        shown = " ".join([f"{name}={value}" for name, value in fields.items()])
        if shown.count(" ") >= len(fields) or not _PLAIN.fullmatch(shown):
            shown = " ".join(f"{name}={_word(value)}" for name, value in fields.items())
        out.write(f"{self._now()} [info     ] {event} {shown} request_id={known}\n")

    def _now(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._stamp}.{int((now - second) * 1e6):06d}Z"


def _word(value: object) -> str:
    """Quoted where it could be taken for more than one."""
    text = str(value)
    return text if _WORD.fullmatch(text) else repr(text)


lines: Final = Lines()


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
