"""The fields of a request, one reader each.

Source of the rules: the Open Responses document of 2026-04-24, openai-python 3.57 and recordings.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.conversation import read_conversation
from bascule.protocols.responses.include import check_includes
from bascule.protocols.responses.items import Item, read_input
from bascule.protocols.responses.metadata import Metadata
from bascule.protocols.responses.request import (
    ReasoningOptions,
    StreamOptions,
    TextOptions,
    Tier,
    ToolChoice,
    ToolRef,
)

Decode = Callable[[Raw, str], Any]


def _typed(type_: Any) -> Decode:
    decode = json.decoder(type_)

    def read(raw: Raw, param: str) -> Any:
        try:
            return decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return json.field(decode, raw, param)

    return read


# --- fields with rules of their own


class _AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    tools: list[ToolRef]
    mode: str


_choice_word = json.decoder(str)
_choice_ref = json.decoder(ToolRef)
_choice_allowed = json.decoder(_AllowedTools)


def _tool_choice(raw: Raw, param: str) -> ToolChoice:
    if json.opens_with(raw, b'"'):
        word = json.field(_choice_word, raw, param)
        if word in ("auto", "none", "required"):
            return ToolChoice(mode=word)
        raise invalid(
            f"Invalid value for '{param}': '{word}'. It must be 'auto', 'none', 'required' "
            "or an object.",
            param,
            code="invalid_value",
        )
    ref = json.field(_choice_ref, raw, param)
    if ref.type != "allowed_tools":
        return ToolChoice(mode="required", named=ref)
    allowed = json.field(_choice_allowed, raw, param)
    if allowed.mode not in ("auto", "required"):
        raise invalid(
            f"Invalid value for '{param}.mode': it must be 'auto' or 'required'.",
            f"{param}.mode",
            code="invalid_value",
        )
    if not allowed.tools:
        raise invalid(f"'{param}.tools' is empty.", f"{param}.tools", code="empty_array")
    return ToolChoice(mode=allowed.mode, allowed=tuple(allowed.tools))


_text = _typed(TextOptions)


def _text_options(raw: Raw, param: str) -> TextOptions:
    text: TextOptions = _text(raw, param)
    form = text.format
    if form is not None and form.type == "json_schema":
        for name in ("name", "schema"):
            if not (form.name if name == "name" else bytes(form.schema)):
                place = f"{param}.format.{name}"
                raise invalid(
                    f"Missing required parameter: '{place}'.",
                    place,
                    code="missing_required_parameter",
                )
        if not bytes(form.schema).lstrip().startswith(b"{"):
            place = f"{param}.format.schema"
            raise invalid(f"'{place}' must be an object.", place, code="invalid_type")
    return text


_includes = _typed(tuple[str, ...])


def _include(raw: Raw, param: str) -> tuple[str, ...]:
    values: tuple[str, ...] = _includes(raw, param)
    check_includes(values, param)
    return values


def _limited(low: float, high: float) -> Decode:
    read = _typed(float)
    whole = (int(low), int(high))

    def check(raw: Raw, param: str) -> float:
        value: float = read(raw, param)
        if not low <= value <= high:
            below = value < low
            raise invalid(
                f"Invalid value for '{param}': {value:g} is not between {whole[0]} and {whole[1]}.",
                param,
                code="decimal_below_min_value" if below else "decimal_above_max_value",
            )
        return value

    return check


_integer = _typed(int)


def _whole(low: int, high: int | None = None) -> Decode:
    def check(raw: Raw, param: str) -> int:
        value: int = _integer(raw, param)
        if value < low:
            raise invalid(
                f"Invalid value for '{param}': {value} is below the minimum of {low}.",
                param,
                code="integer_below_min_value",
            )
        if high is not None and value > high:
            raise invalid(
                f"Invalid value for '{param}': {value} is above the maximum of {high}.",
                param,
                code="integer_above_max_value",
            )
        return value

    return check


_string = _typed(str)


def _text_of(limit: int) -> Decode:
    """A string of at most `limit` characters."""

    def check(raw: Raw, param: str) -> str:
        value: str = _string(raw, param)
        if len(value) > limit:
            raise invalid(
                f"Invalid value for '{param}': it has {len(value)} characters, at most {limit} "
                "are allowed.",
                param,
                code="string_above_max_length",
            )
        return value

    return check


_MAX_INPUT: Final = 10_485_760
_short_enough = _text_of(_MAX_INPUT)


def _input(raw: Raw, param: str) -> list[Item]:
    if json.opens_with(raw, b'"') and len(memoryview(raw)) > _MAX_INPUT:
        _short_enough(raw, param)
    return read_input(raw, param)


def _tools(raw: Raw, param: str) -> None:
    """Kept as bytes: the same list comes with every turn, and its plan is known by them."""
    if not json.opens_with(raw, b"["):
        raise invalid(f"Invalid value for '{param}': expected `array`.", param, "invalid_type")


READ: Final[dict[str, Decode]] = {
    "model": _typed(str),
    "input": _input,
    "instructions": _typed(str),
    "previous_response_id": _typed(str),
    "conversation": read_conversation,
    "store": _typed(bool),
    "stream": _typed(bool),
    "stream_options": _typed(StreamOptions),
    "include": _include,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _typed(bool),
    "max_tool_calls": _whole(1),
    "max_output_tokens": _whole(16),
    "temperature": _limited(0, 2),
    "top_p": _limited(0, 1),
    "top_logprobs": _whole(0, 20),
    "text": _text_options,
    "reasoning": _typed(ReasoningOptions),
    "truncation": _typed(Literal["auto", "disabled"]),
    "metadata": _typed(Metadata),
}
"""Fields that the request has a member for."""

CHECKED: Final[dict[str, Decode]] = {
    "presence_penalty": _limited(-2, 2),
    "frequency_penalty": _limited(-2, 2),
    "service_tier": _typed(Tier),
    "prompt_cache_key": _text_of(64),
    "prompt_cache_retention": _typed(Literal["in_memory", "in-memory", "24h"]),
    "safety_identifier": _text_of(128),
    "user": _string,
}
"""Fields that are checked here and passed on as they are."""

_members = json.decoder(dict[str, Raw])
_MEMBERS: Final[dict[str, frozenset[str]]] = {
    "text": frozenset(TextOptions.__struct_fields__),
    "reasoning": frozenset(ReasoningOptions.__struct_fields__),
    "stream_options": frozenset(StreamOptions.__struct_fields__),
}


def unknown_members(name: str, raw: Raw) -> list[str]:
    """JSON paths of what nobody knows inside a field that was read."""
    known = _MEMBERS.get(name)
    if known is None:
        return []
    return [f"{name}.{member}" for member in _members(raw) if member not in known]
