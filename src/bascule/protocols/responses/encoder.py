"""A turn as a request to a server that speaks Responses: the client's own bytes wherever they fit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.protocols import capabilities, json
from bascule.protocols.errors import invalid
from bascule.protocols.flags import Flags
from bascule.protocols.function import FunctionSpec, Offered, WireChoice
from bascule.protocols.responses.descriptions import described, lacks
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Passed,
    Thought,
)
from bascule.protocols.responses.request import ENCRYPTED_REASONING, TurnRequest

# The gateway keeps the state, and says itself what is asked of it.
_OWN: Final = frozenset(
    {
        *("model", "input", "tools", "tool_choice", "include", "stream", "stream_options"),
        *("store", "previous_response_id", "conversation", "background", "background_options"),
    }
)


_OF_THE_FAMILY: Final = ("defer_loading", "allowed_callers", "output_schema")
"""Members of functions that only servers of the tool_search family know."""


class Encoded(msgspec.Struct):
    """A request body, and the JSON paths of fields that this server cannot be told of."""

    body: bytes
    ignored: list[str]


def encode_tools(offered: Sequence[Offered], flags: Flags) -> bytes:
    """The `tools` list; it depends on nothing but its arguments, so it may be kept."""
    return json.encode([_tool(tool, flags) for tool in offered])


def _tool(tool: Offered, flags: Flags) -> Raw:
    if not isinstance(tool, FunctionSpec):
        return described(tool) if flags.namespace_description else tool
    declared = bytes(tool.declared)
    members: dict[str, Any] = {"type": "function", "name": tool.name}
    if declared:
        members = {**json.envelope(declared), "name": tool.name}
    else:
        if tool.description is not None:
            members["description"] = tool.description
        members["parameters"] = tool.parameters if bytes(tool.parameters) else None
        members["strict"] = tool.strict
    if not flags.strict_tools:
        members.pop("strict", None)
    if flags.flatten_tool_search_family:
        for name in _OF_THE_FAMILY:
            members.pop(name, None)
    return Raw(json.encode(members))


def encode_request(
    request: TurnRequest,
    *,
    model: str,
    items: Iterable[Flat],
    tools: bytes,
    choice: WireChoice,
    flags: Flags,
    constraint: Mapping[str, Any] | None = None,
) -> Encoded:
    """The request body of one round. `tools` comes from encode_tools, empty if there are none;
    `constraint` are further members, which hold the answer's text to a grammar.

    Raises ApiError 400 for a call without its output, and for what the server cannot be given.
    """
    capabilities.check_fields(request.passed, "responses")
    ignored: list[str] = []
    fields: dict[str, Any] = {"model": model}
    fields |= {name: raw for name, raw in request.raw.items() if name not in _OWN}
    fields["input"] = list(_items(items, flags))
    if tools:
        fields["tools"] = Raw(tools)
        _choose(fields, choice, flags)
    _adapt(fields, request, flags, ignored)
    include = list(request.include)
    if flags.encrypted_reasoning and ENCRYPTED_REASONING not in include:
        include.append(ENCRYPTED_REASONING)
    if include:
        fields["include"] = include
    fields["store"] = False
    if request.stream:
        fields["stream"] = True
    if constraint is not None:
        fields |= constraint
    return Encoded(json.encode(fields), ignored)


def is_understood(request: TurnRequest, flags: Flags) -> bool:
    """Whether the server can be given the request as it is: no flag asks for a change."""
    fields: dict[str, Any] = dict(request.raw)
    ignored: list[str] = []
    _adapt(fields, request, flags, ignored)
    if ignored or fields != request.raw:
        return False
    if not flags.strict_tools and b'"strict"' in bytes(request.raw.get("tools", b"")):
        return False
    if not flags.allowed_tools and request.tool_choice.allowed is not None:
        return False
    tools = bytes(request.raw.get("tools", b""))
    if flags.flatten_tool_search_family and any(f'"{n}"'.encode() in tools for n in _OF_THE_FAMILY):
        return False
    if flags.namespace_description and any(
        lacks(request.raw.get(name, b"")) for name in ("tools", "input")
    ):
        return False
    return flags.developer_role or b'"developer"' not in bytes(request.raw.get("input", b""))


def _adapt(fields: dict[str, Any], request: TurnRequest, flags: Flags, ignored: list[str]) -> None:
    """Leave out what the server does not know. Raises ApiError 400 for a form that it cannot hold
    its output to."""
    if request.parallel_tool_calls is not None and not flags.parallel_tool_calls:
        del fields["parallel_tool_calls"]
    form = request.text.format
    if form is not None and form.type == "json_schema" and not _knows("text.format", flags):
        raise invalid(
            "The model's server cannot hold its output to a JSON schema.",
            "text.format",
            code="unsupported_value",
        )
    if request.text.verbosity is not None and not _knows("text.verbosity", flags):
        _leave_out(fields, "text", "verbosity", ignored)
    if request.reasoning.effort is not None and not _knows("reasoning.effort", flags):
        _leave_out(fields, "reasoning", "effort", ignored)


def _knows(name: str, flags: Flags) -> bool:
    row = capabilities.FIELDS.get(name) or capabilities.OPTIONS[name]
    return capabilities.verdict(row, "responses", flags) == "honoured"


def _leave_out(fields: dict[str, Any], name: str, member: str, ignored: list[str]) -> None:
    members = json.envelope(bytes(fields[name]))
    del members[member]
    fields[name] = Raw(json.encode(members))
    ignored.append(f"{name}.{member}")


def _choose(fields: dict[str, Any], choice: WireChoice, flags: Flags) -> None:
    if choice.name is not None:
        fields["tool_choice"] = {"type": "function", "name": choice.name}
    elif choice.allowed is not None:
        if flags.allowed_tools:
            functions = [{"type": "function", "name": name} for name in choice.allowed]
            fields["tool_choice"] = {
                "type": "allowed_tools",
                "mode": choice.mode,
                "tools": [*functions, *choice.native],
            }
        elif choice.mode != "auto":
            fields["tool_choice"] = choice.mode
    elif choice.native:
        fields["tool_choice"] = choice.native[0]
    elif choice.mode != "auto":
        fields["tool_choice"] = choice.mode


class _Role(msgspec.Struct):
    type: str = "message"
    role: str | None = None


_role = json.decoder(_Role)


def _items(items: Iterable[Flat], flags: Flags) -> Iterable[Raw]:
    waiting: dict[str, None] = {}
    for item in items:
        if isinstance(item, Thought):
            continue  # only the model that had it could read it, and that got it as it was
        if isinstance(item, Passed):
            if item.call_id is not None:
                waiting[item.call_id] = None
            elif item.answers is not None:
                waiting.pop(item.answers, None)
            data = described(item.data) if flags.namespace_description else item.data
            yield data if flags.developer_role else _as_system(data)
            continue
        if isinstance(item, FunctionCall):
            if not item.asynchronous:
                waiting[item.call_id] = None
        elif isinstance(item, FunctionCallOutput):
            waiting.pop(item.call_id, None)
        data = Raw(json.encode(item))
        yield data if flags.developer_role else _as_system(data)
    if waiting:
        raise invalid(f"No tool output found for function call {next(iter(waiting))}.", "input")


def _as_system(data: Raw) -> Raw:
    """A developer's message for a server that does not know the role."""
    if b'"developer"' not in bytes(data):
        return data
    try:
        head = _role(data)
    except msgspec.DecodeError:
        return data
    if head.type != "message" or head.role != "developer":
        return data
    return Raw(json.merge(data, role="system"))
