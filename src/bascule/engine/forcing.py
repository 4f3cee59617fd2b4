"""A call forced through the server's structured output: the model fills in the arguments alone."""

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from bascule.engine.guard import Feed
from bascule.engine.reading import call_of, text_of
from bascule.protocols import json
from bascule.protocols.function import FunctionSpec
from bascule.protocols.ids import mint
from bascule.protocols.responses.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    ReasoningTrace,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)
from bascule.protocols.responses.items import FunctionCallItem, Message
from bascule.protocols.responses.request import TextFormat, TextOptions, TurnRequest
from bascule.toolkit.arguments import ArgumentSchemas

_FORMAT_NAME: Final = "tool_call"
_MAX_DESCRIPTION: Final = 1000


def call_events(index: int, name: str, arguments: str) -> list[RoundEvent]:
    """The life of a call that did not come as one."""
    call_id = mint("call")
    return [
        OutputItemAdded(-1, index, FunctionCallItem("", "in_progress", call_id, name, "")),
        ArgumentsDelta(-1, "", index, arguments),
        ArgumentsDone(-1, "", index, arguments),
        OutputItemDone(-1, index, FunctionCallItem("", "completed", call_id, name, arguments)),
    ]


def forcing(request: TurnRequest, functions: Sequence[FunctionSpec]) -> TurnRequest:
    """The request for an answer that is the arguments of the one function, or
    `{"name": ..., "arguments": ...}` of one of several."""
    schema = msgspec.Raw(json.encode(call_schema(functions)))
    form = TextFormat(type="json_schema", name=_FORMAT_NAME, schema=schema)
    text = TextOptions(form, request.text.verbosity)
    # A server that speaks Responses is told the field as it stands in `raw`.
    members: dict[str, Any] = {"format": {"type": form.type, "name": form.name, "schema": schema}}
    if text.verbosity is not None:
        members["verbosity"] = text.verbosity
    raw = {**request.raw, "text": msgspec.Raw(json.encode(members))}
    return msgspec.structs.replace(request, text=text, raw=raw)


def call_schema(functions: Sequence[FunctionSpec]) -> dict[str, Any]:
    """Of one function its own parameters; of several one object for each."""
    if len(functions) == 1:
        return _parameters(functions[0])
    options: list[dict[str, Any]] = []
    shared: dict[str, Any] = {}
    for i, spec in enumerate(functions):
        arguments = _parameters(spec)
        if b'"$ref"' in bytes(spec.parameters):
            # References count from the root of the whole schema.
            shared[f"tool_{i}"] = _moved(arguments, f"#/$defs/tool_{i}")
            arguments = {"$ref": f"#/$defs/tool_{i}"}
        members = {"name": {"type": "string", "enum": [spec.name]}, "arguments": arguments}
        options.append(
            {
                "type": "object",
                "properties": members,
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": options, "$defs": shared} if shared else {"anyOf": options}


def _parameters(spec: FunctionSpec) -> dict[str, Any]:
    raw = bytes(spec.parameters)
    schema: dict[str, Any] = msgspec.json.decode(raw) if raw else {"properties": {}}
    return schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}


def _moved(value: Any, root: str) -> Any:
    """A schema whose references to itself begin at `root`."""
    fields = json.as_object(value)
    if fields is not None:
        return {
            key: root + member[1:]
            if key == "$ref" and isinstance(member, str) and member.startswith("#")
            else _moved(member, root)
            for key, member in fields.items()
        }
    if isinstance(value, list):
        return [_moved(member, root) for member in cast("list[Any]", value)]
    return value


def demand(functions: Sequence[FunctionSpec]) -> Message:
    """What the model is told: servers hold it to the schema, but do not show it."""
    if len(functions) == 1:
        spec = functions[0]
        lines = [f"Answer with nothing but the JSON arguments for the tool `{spec.name}`."]
        if spec.description:
            lines.append(spec.description[:_MAX_DESCRIPTION])
        if bytes(spec.parameters):
            lines.append(f"Their schema: {bytes(spec.parameters).decode()}")
        return Message("user", "\n".join(lines))
    lines = [
        'Answer with nothing but JSON, {"name": ..., "arguments": ...}, for one of these tools:'
    ]
    for spec in functions:
        lines.append(f"- `{spec.name}`: {(spec.description or '')[:_MAX_DESCRIPTION]}")
        lines.append(f"  Schema of its arguments: {(bytes(spec.parameters) or b'{}').decode()}")
    return Message("user", "\n".join(lines))


class _Written(msgspec.Struct):
    name: str
    arguments: msgspec.Raw


_decode = json.decoder(_Written)


class ForcedAnswer:
    """A stage that makes the call of a forced answer; reasoning passes, text does not.

    An answer that was cut passes as incomplete, without the call.
    """

    def __init__(self, names: Sequence[str], schemas: ArgumentSchemas, feed: Feed) -> None:
        self._names = names
        self._schemas = schemas
        self._feed = feed
        self._passing: list[RoundEvent] = []
        self._messages: set[int] = set()
        self._index = 0
        self._text: list[str] = []
        self.fault: str | None = None
        """Why there is no call; set at the end of an answer of which nothing has passed."""
        self.end: RoundEnd | None = None

    def feed(self, events: list[RoundEvent]) -> None:
        for event in events:
            if isinstance(event, RoundFailed):
                self._feed([event])
            elif isinstance(event, RoundEnd):
                self._finish(event)
            else:
                self._take(event)

    def _take(self, event: RoundEvent) -> None:
        if isinstance(event, OutputItemAdded):
            self._index = max(self._index, event.output_index + 1)
            if call_of(event.item) is not None or text_of(event.item) is not None:
                self._messages.add(event.output_index)
        if isinstance(event, OutputItemDone):
            self._text.append(text_of(event.item) or "")
        if (
            isinstance(event, (ItemEvent, OutputItemAdded, OutputItemDone, ReasoningTrace))
            and event.output_index not in self._messages
        ):
            self._passing.append(event)

    def _finish(self, end: RoundEnd) -> None:
        self.end = end
        if end.incomplete_reason is not None:
            self._feed([*self._passing, end])
            return
        try:
            name, arguments = self._call("".join(self._text))
        except ValueError as e:
            self.fault = str(e)
            return
        self._feed([*self._passing, *call_events(self._index, name, arguments), end])

    def _call(self, text: str) -> tuple[str, str]:
        """Raises ValueError for what is no call of one of the tools."""
        name, arguments = self._names[0], text.strip()
        if len(self._names) > 1:
            try:
                written = _decode(text.encode())
            except (msgspec.DecodeError, RecursionError):
                raise ValueError("its structured output was not the JSON of a call") from None
            name, arguments = written.name, bytes(written.arguments).decode()
            if name not in self._names:
                raise ValueError("its structured output called another tool")
        schema = self._schemas.of(name)
        if schema is None or schema.fault(arguments) is None:
            return name, arguments
        repaired = schema.repaired(arguments)
        if repaired is None:
            raise ValueError("its structured output did not fit the tool's parameters")
        return name, repaired
