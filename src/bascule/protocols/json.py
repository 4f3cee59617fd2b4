"""JSON as it comes from outside: strict decoding, faults as a 400 that names the place."""

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import msgspec

from bascule.protocols.errors import ApiError, invalid

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
encode: Final = _encoder.encode
encode_into: Final = _encoder.encode_into

_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


def decoder(type_: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """A reusable strict decoder for one type; raises msgspec.DecodeError."""
    return msgspec.json.Decoder(type_).decode


_envelope = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def envelope(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a JSON object, each still as its bytes.

    Raises ApiError 400 for invalid UTF-8, malformed JSON, another type, and deep nesting.
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as e:
            raise invalid(f"The request body is not valid UTF-8 (byte {e.start}).") from None
    try:
        fields = _envelope(body)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError:
        raise invalid("The request body must be a JSON object.") from None
    except msgspec.DecodeError as e:
        raise invalid(f"The request body is not valid JSON: {e}.") from None
    return fields


def _too_deep() -> ApiError:
    return invalid("The request body is nested too deeply.")


def fault(error: msgspec.DecodeError, param: str) -> ApiError:
    """The 400 for a value that did not decode, with the path inside it joined to `param`."""
    text = str(error)
    place = _PLACE.search(text)
    if place:
        param += place.group(1).replace("[...]", "")
        text = text[: place.start()]
    missing = re.search(r"missing required field `(\w+)`", text)
    if missing:
        name = f"{param}.{missing.group(1)}"
        return invalid(
            f"Missing required parameter: '{name}'.", name, code="missing_required_parameter"
        )
    return invalid(f"Invalid value for '{param}': {_lower(text)}.", param, code=_code(text))


_BOUND: Final = re.compile(r"Expected `(\w+)` (of length )?([<>])")
_BOUNDED: Final = {"int": "integer", "float": "decimal", "str": "string", "array": "array"}


def _code(text: str) -> str:
    bound = _BOUND.match(text)
    if bound is not None:
        kind = _BOUNDED.get(bound[1], "value")
        side = "below_min" if bound[3] == ">" else "above_max"
        return f"{kind}_{side}_{'length' if bound[2] else 'value'}"
    if text.startswith("Expected `") and ", got `" in text:
        return "invalid_type"
    return "invalid_value"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def field(decode: Callable[[bytes | msgspec.Raw], T], raw: bytes | msgspec.Raw, param: str) -> T:
    """Decode one field; a fault names it."""
    try:
        return decode(raw)
    except msgspec.DecodeError as e:
        raise fault(_located(decode, raw, e), param) from None
    except RecursionError:
        raise _too_deep() from None


def _located(
    decode: Callable[[bytes | msgspec.Raw], Any],
    raw: bytes | msgspec.Raw,
    error: msgspec.DecodeError,
) -> msgspec.DecodeError:
    """The error with the numbers of the list elements that it lies in, which msgspec leaves out."""
    text = str(error)
    place = _PLACE.search(text)
    if place is None or "[...]" not in place.group(1):
        return error
    path, *rest = place.group(1).split("[...]")
    for members in rest:
        path += f"{_faulty(decode, raw, path)}{members}"
    return msgspec.ValidationError(f"{text[: place.start()]} - at `${path}`")


def _faulty(
    decode: Callable[[bytes | msgspec.Raw], Any], raw: bytes | msgspec.Raw, path: str
) -> str:
    """The step to the first element that does not decode, of the list or the map at `path`."""
    whole: Any = {"": msgspec.json.decode(raw)}
    holder, step = whole, ""
    for name, number in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        holder, step = holder[step], int(number) if number else name
    found = as_object(holder[step])
    listed: list[Any] = holder[step] if found is None else list(found.items())

    def fails(index: int) -> bool:
        some = listed[: index + 1]
        holder[step] = some if found is None else dict(some)
        try:
            decode(encode(whole[""]))
        except msgspec.DecodeError:
            return True
        return False

    index = bisect_left(range(len(listed) - 1), x=True, key=fails)
    return f"[{index}]" if found is None else f".{listed[index][0]}"


def is_null(raw: bytes | msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:5]) == b"null"


def opens_with(raw: bytes | msgspec.Raw, mark: bytes) -> bool:
    """Whether a value begins with this bracket or quote; looks without copying."""
    return bytes(memoryview(raw)[:1]) == mark


def on_one_line(members: bytes) -> bytes:
    """An object's members without line breaks between tokens, which SSE data cannot hold."""
    if b"\n" not in members and b"\r" not in members:
        return members
    return msgspec.json.format(b"{%b}" % members, indent=-1)[1:-1]


def as_object(value: Any) -> dict[str, Any] | None:
    """A decoded value, if it is an object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def is_object(text: str) -> bool:
    """Whether a text is a JSON object and nothing else."""
    try:
        _envelope(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def merge(raw: bytes | msgspec.Raw, **changes: Any) -> bytes:
    """A JSON object with some members replaced or added; all others keep their bytes."""
    try:
        members = _envelope(raw)
    except RecursionError:
        # As deep as the door has just let through. Of two members of one name the last counts.
        return bytes(raw).rstrip()[:-1] + b"," + encode(changes)[1:]
    for name, value in changes.items():
        members[name] = msgspec.Raw(encode(value))
    return encode(members)
