"""What an executor gave back: held to its type, and to a size.

Executors are written by others. What comes out of here can be encoded, stored and shown; a result that
is too large is cut, and says so.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, structs

from bascule.protocols import json
from bascule.protocols.responses.items import Part
from bascule.toolkit.outcome import Failed, Outcome, Output, Suspended

_FRAME: Final = 32
"""Bytes that a part counts for besides its texts."""
_TEXTS: Final = ("text", "refusal", "image_url", "file_id", "file_data", "file_url", "filename")


class WrongResult(Exception):
    """Not what an executor may return. The message holds nothing of the result."""

    loggable = True


def kept(outcome: object, max_bytes: int) -> Outcome:
    """The outcome as it goes on: texts without lone surrogates, at most `max_bytes` of what the model
    or the client is given, plus a notice where something is missing. A public part that is larger
    becomes null, which says nothing. The given object is not changed.

    Raises WrongResult.
    """
    if isinstance(outcome, Output):
        return _output(outcome, max_bytes)
    if isinstance(outcome, Failed):
        _must_be(str, "message", outcome.message)
        _must_be(str, "code", outcome.code)
        message, code = _cut(_sound(outcome.message), max_bytes), _sound(outcome.code)
        if outcome.public != b"null":
            _must_be_json("public", outcome.public)
        public = _on_one_line(outcome.public) if len(outcome.public) <= max_bytes else b"null"
        same = message is outcome.message and code is outcome.code and public is outcome.public
        return outcome if same else Failed(message=message, code=code, public=public)
    if isinstance(outcome, Suspended):
        return _suspended(outcome, max_bytes)
    raise WrongResult(f"{type(outcome).__name__} is no outcome")


def _must_be(type_: type, what: str, *values: object) -> None:
    for value in values:
        if not isinstance(value, type_):
            raise WrongResult(f"{what}: {type(value).__name__}")


def _must_be_list(what: str, value: object) -> None:
    _must_be(Sequence, what, value)
    if isinstance(value, (str, bytes)):
        raise WrongResult(f"{what}: {type(value).__name__}")


def _must_be_json(what: str, data: object) -> None:
    if not _is_json(data):
        raise WrongResult(f"{what}: not JSON")


# --- outputs


def _output(outcome: Output, max_bytes: int) -> Output:
    _must_be_list("declare", outcome.declare)
    _must_be(Raw, "declare", *outcome.declare)
    output = _shortened(outcome.output, max_bytes)
    public = outcome.public
    if public != b"null":
        _must_be_json("public", public)
        public = b"null" if len(public) > max_bytes else _on_one_line(public)
    if output is outcome.output and public is outcome.public:
        return outcome
    return structs.replace(outcome, output=output, public=public)


def _shortened(output: object, max_bytes: int) -> str | list[Part]:
    if isinstance(output, str):
        return _cut(_sound(output), max_bytes)
    if not isinstance(output, list):
        raise WrongResult(f"output: {type(output).__name__}")
    parts = cast("list[Part]", output)
    _must_be(Part, "output", *parts)
    return _cut_parts([_sound_part(part) for part in parts], max_bytes)


def _cut_parts(parts: list[Part], max_bytes: int) -> list[Part]:
    sizes = [_size(part) for part in parts]
    if sum(sizes) <= max_bytes:
        return parts
    left = max_bytes
    fitting: list[Part] = []
    for at, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if size <= left:
            fitting.append(part)
            left -= size
            continue
        if part.text is not None and size - _bytes(part.text) <= left:
            room = left - (size - _bytes(part.text))
            fitting.append(structs.replace(part, text=_cut(part.text, room)))
            left = 0
        else:
            fitting.append(_notice(f"[left out: {_kind(part)} of {size} bytes]"))
            left -= _FRAME
        if left <= 0:
            rest = sizes[at + 1 :]
            if rest:
                fitting.append(_notice(f"[left out: {len(rest)} more, {sum(rest)} bytes]"))
            break
    return fitting


def _notice(text: str) -> Part:
    return Part("input_text", text=text)


def _kind(part: Part) -> str:
    words = part.type.removeprefix("input_").removeprefix("output_")
    return words if words in ("image", "file", "audio", "text", "refusal") else "part"


def _size(part: Part) -> int:
    size = _FRAME
    for name in _TEXTS:
        value: str | None = getattr(part, name)
        if value is not None:
            size += _bytes(value)
    if part.input_audio is not None:
        size += len(json.encode(part.input_audio))
    return size


# --- suspended calls


class _Shown(msgspec.Struct):
    type: str
    id: str


_shown = json.decoder(_Shown)


def _suspended(outcome: Suspended, max_bytes: int) -> Outcome:
    _must_be_list("items", outcome.items)
    _must_be_list("awaits", outcome.awaits)
    _must_be(str, "awaits", *outcome.awaits)
    if not outcome.awaits:
        raise WrongResult("awaits: empty, so that nothing could resume the call")
    items = [_item(item) for item in outcome.items]
    _must_be_json("state", outcome.state)
    size = sum(map(len, items)) + len(outcome.state)
    if size > max_bytes:
        return Failed(
            message=f"The tool's question to the client had {size} bytes; {max_bytes} are allowed.",
            code="result_too_large",
        )
    return structs.replace(outcome, items=items)


def _item(item: object) -> bytes:
    """On one line, as a stream needs it."""
    if isinstance(item, bytes) and _is_json(item):
        with suppress(msgspec.DecodeError):
            _shown(item)
            return _on_one_line(item)
    raise WrongResult("items: not JSON objects with a type and an id")


# --- texts


def _cut(text: str, max_bytes: int) -> str:
    """At most `max_bytes` of UTF-8 and a notice, never cut inside a character."""
    if len(text) * 4 <= max_bytes:
        return text
    if text.isascii():
        size = len(text)
        if size <= max_bytes:
            return text
        beginning = text[:max_bytes]
    else:
        # A character has at least one byte: the rest cannot be within the limit.
        size = _bytes(text)
        if size <= max_bytes:
            return text
        beginning = text[:max_bytes].encode()[:max_bytes].decode(errors="ignore")
    return f"{beginning}\n[cut: the result had {size} bytes]"


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _sound(text: str) -> str:
    """JSON is UTF-8, which has no lone surrogates; they become question marks. And its encoder knows
    no classes that are derived from str."""
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _sound_part(part: Part) -> Part:
    changed: dict[str, str] = {}
    for name in ("type", "detail", *_TEXTS):
        value: Any = getattr(part, name)
        if value is None:
            continue
        _must_be(str, name, value)
        if (sound := _sound(value)) is not value:
            changed[name] = sound
    return structs.replace(part, **changed) if changed else part


def _on_one_line(data: bytes) -> bytes:
    broken = b"\n" in data or b"\r" in data
    return msgspec.json.format(data, indent=-1) if broken else data


_raw = json.decoder(Raw)


def _is_json(data: object) -> bool:
    if not isinstance(data, bytes):
        return False
    try:
        _raw(data)
        if not data.isascii():
            data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
