"""What a script gives for a request: a reply made of steps, or an HTTP answer written out."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from bascule.testing.dialect import Dialect
from bascule.testing.steps import Json, Stall, Step, Text

Part: TypeAlias = Literal["usage", "finish", "done"]


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the bytes of an answer travel.

    `answer` gives JSON to a stream request or SSE to the other kind. `group` joins so many events in
    one write, `split` cuts each event into several writes at these byte offsets (each write is also one
    HTTP chunk when `framing` is chunked). `framing` auto is chunked for a stream, a content-length for
    JSON. `last_frame` leaves the blank line, or every line end, off the
    last event. `multiline` spreads the data of each event over several lines. `hold_head` sends the
    head together with the first byte of the body.
    """

    answer: Literal["asked", "json", "sse"] = "asked"
    framing: Literal["auto", "chunked", "length", "eof"] = "auto"
    line_end: Literal["\n", "\r\n", "\r"] = "\n"
    space: bool = True
    multiline: bool = False
    last_frame: Literal["full", "no_blank", "no_newline"] = "full"
    group: int = 1
    split: list[int] = []
    hold_head: bool = False
    content_type: str | None = None


class Reply:
    """One answer of the model, made of steps (a plain string is a `Text`).

    Finish, usage (if asked for) and `[DONE]` are added unless a step says them or ends the answer
    earlier; `omit` leaves them out. `dialect` None means the server's.
    """

    __slots__ = ("dialect", "headers", "model", "omit", "steps", "wire")

    def __init__(
        self,
        *steps: Step | str,
        omit: Iterable[Part] = (),
        wire: Wire | None = None,
        dialect: Dialect | None = None,
        headers: dict[str, str] | None = None,
        model: str | None = None,
    ) -> None:
        self.steps: tuple[Step, ...] = tuple(Text(s) if isinstance(s, str) else s for s in steps)
        self.omit: frozenset[Part] = frozenset(omit)
        self.wire = wire or Wire()
        self.dialect = dialect
        self.headers = headers or {}
        self.model = model

    def __repr__(self) -> str:
        return f"Reply({', '.join(map(repr, self.steps))})"


class HttpAnswer(msgspec.Struct, frozen=True):
    """A whole HTTP answer: any status and body."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = "application/json"
    headers: dict[str, str] = {}


class Verbatim(msgspec.Struct, frozen=True):
    """Bytes in place of an HTTP answer, head and all; then the connection closes, or hangs."""

    data: bytes
    then: Literal["close", "hang"] = "close"


Answer: TypeAlias = Reply | HttpAnswer | Verbatim


def http_json(status: int, body: Any, headers: dict[str, str] | None = None) -> HttpAnswer:
    """A JSON answer with this body."""
    return HttpAnswer(status, msgspec.json.encode(body), headers=headers or {})


def http_error(
    status: int,
    message: str = "The model server has failed",
    *,
    code: str | int | None = None,
    kind: str | None = None,
    param: str | None = None,
    retry_after: str | int | None = None,
    extra: Json | None = None,
) -> HttpAnswer:
    """An HTTP error with an `error` object; an integer `code` is what llama-server and vLLM send."""
    default = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind or default, "param": param, "code": code}
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return http_json(status, {"error": {**error, **(extra or {})}}, headers)


def html(status: int = 200, title: str = "502 Bad Gateway") -> HttpAnswer:
    """A web page where an API answer was expected, as proxies and wrong addresses give."""
    page = f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{title}</body></html>"
    return HttpAnswer(status, page.encode(), "text/html; charset=utf-8")


def empty(status: int) -> HttpAnswer:
    """A status with no body at all."""
    return HttpAnswer(status, b"", None)


def silence() -> Reply:
    """The request is taken and nothing comes back, not even a head."""
    return Reply(Stall(), wire=Wire(hold_head=True))


def head_only() -> Reply:
    """The head comes, then nothing."""
    return Reply(Stall())
