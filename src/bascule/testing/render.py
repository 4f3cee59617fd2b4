"""A reply as what is to be sent: a list of writes, waits and cuts behind one HTTP head."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TypeAlias

import msgspec

from bascule.testing.answer import HttpAnswer, Reply
from bascule.testing.content import Message, Numbering
from bascule.testing.dialect import Dialect
from bascule.testing.steps import (
    CONTENT,
    BadJson,
    Cut,
    Delay,
    Finish,
    Flow,
    Gate,
    Json,
    Stall,
    Step,
    StreamError,
    Usage,
)
from bascule.testing.stream import (
    Occasion,
    StreamRenderer,
    completed,
    error_object,
    usage_object,
)
from bascule.testing.wire import pieces, writes

Op: TypeAlias = bytes | Flow


class Rendered(msgspec.Struct, kw_only=True):
    """An answer ready to be played. `hold_head`: the head waits for the first byte of the body."""

    head: bytes
    ops: list[Op]
    chunked: bool = False
    close: bool = False
    hold_head: bool = False


def render(reply: Reply, dialect: Dialect, occasion: Occasion) -> Rendered:
    """What answers this request: a stream or a whole body, as it asked or as the wire says."""
    dialect = reply.dialect or dialect
    asked = "sse" if occasion.stream else "json"
    answer = asked if reply.wire.answer == "asked" else reply.wire.answer
    if answer == "sse":
        return _streamed(reply, dialect, occasion)
    return _whole(reply, dialect, occasion)


def render_http(answer: HttpAnswer) -> Rendered:
    """An HTTP answer that is written out."""
    headers = {**answer.headers, "content-length": str(len(answer.body))}
    if answer.content_type:
        headers = {"content-type": answer.content_type, **headers}
    return Rendered(head=head(answer.status, headers), ops=[answer.body] if answer.body else [])


def head(status: int, headers: dict[str, str]) -> bytes:
    """A response head. An unknown status gets a reason of its own."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _streamed(reply: Reply, dialect: Dialect, occasion: Occasion) -> Rendered:
    items = StreamRenderer(reply, dialect, occasion).items()
    ops: list[Op] = list(writes(items, reply.wire))
    return _framed(reply, ops, "text/event-stream; charset=utf-8", "chunked")


def _framed(reply: Reply, ops: list[Op], content_type: str, framing: str) -> Rendered:
    wire = reply.wire
    framing = framing if wire.framing == "auto" else wire.framing
    headers = {"content-type": wire.content_type or content_type, **reply.headers}
    if framing == "length":
        headers["content-length"] = str(_length(ops))
    elif framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    else:
        headers["connection"] = "close"
    return Rendered(
        head=head(200, headers),
        ops=ops,
        chunked=framing == "chunked",
        close=framing == "eof",
        hold_head=wire.hold_head,
    )


def _length(ops: Iterable[Op]) -> int:
    """The length to announce: more than is sent when the body is to be cut."""
    return sum(len(op) if isinstance(op, bytes) else 64 * isinstance(op, Cut | Stall) for op in ops)


def _whole(reply: Reply, dialect: Dialect, occasion: Occasion) -> Rendered:
    steps = completed(reply, dialect, occasion)
    waits: list[Op] = [step for step in steps if isinstance(step, Delay | Gate)]
    error = next((step for step in steps if isinstance(step, StreamError)), None)
    if error is not None:
        failed = render_http(_as_http(error))
        return Rendered(head=failed.head, ops=waits + failed.ops, hold_head=True)
    if any(isinstance(step, Stall) for step in steps):
        return _framed(reply, [*waits, Stall()], "application/json", "length")
    body = _body(reply, steps, dialect, occasion)
    cut = next((step for step in steps if isinstance(step, Cut)), None)
    written = (
        [*waits, body[: len(body) // 2], cut] if cut else [*waits, *pieces(body, reply.wire.split)]
    )
    rendered = _framed(reply, written, "application/json", "length")
    rendered.hold_head = True
    return rendered


def _body(reply: Reply, steps: list[Step], dialect: Dialect, occasion: Occasion) -> bytes:
    broken = next((step for step in steps if isinstance(step, BadJson)), None)
    if broken is not None:
        return broken.content.encode()
    return msgspec.json.encode(whole_answer(reply, steps, dialect, occasion))


def whole_answer(reply: Reply, steps: list[Step], dialect: Dialect, occasion: Occasion) -> Json:
    """The `chat.completion` object that the steps amount to."""
    message = Message(Numbering(occasion.number, dialect))
    finish, counts = Finish(None), None
    for step in steps:
        if isinstance(step, CONTENT):
            message.add(step)
        elif isinstance(step, Finish):
            finish = step
        elif isinstance(step, Usage):
            counts = step
    logprobs = {"content": message.logprobs, "refusal": None} if message.logprobs else None
    answer: Json = {
        "id": occasion.identity,
        "object": "chat.completion",
        "created": occasion.created,
        "model": reply.model or occasion.model,
        **dialect.chunk,
        "choices": [
            {
                "index": 0,
                "message": {**dialect.every, **message.build()},
                "logprobs": logprobs,
                "finish_reason": finish.reason,
                **finish.extra,
            }
        ],
    }
    if counts is not None:
        answer["usage"] = usage_object(counts)
    return answer


def _as_http(error: StreamError) -> HttpAnswer:
    code = error.code if isinstance(error.code, int) and 400 <= error.code < 600 else 500
    return HttpAnswer(code, msgspec.json.encode({"error": error_object(error)}))
