"""A turn as a Chat Completions request.

The four flat kinds of items become messages so that every server accepts them: calls and the results
they belong to stand together, text is a string where it can be, and roles are those that the server
knows.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.flags import Flags
from bascule.protocols.function import FunctionSpec, WireChoice
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Part,
    Thought,
)
from bascule.protocols.responses.request import TextFormat, TurnRequest


class _Named(msgspec.Struct):
    name: str
    arguments: str


class _ToolCall(msgspec.Struct):
    id: str
    function: _Named
    type: str = "function"


class _Message(msgspec.Struct, omit_defaults=True):
    role: str
    content: Any = msgspec.UNSET
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Raw] | None = None


class _Function(msgspec.Struct, omit_defaults=True):
    name: str
    description: str | None = None
    parameters: Any = None
    strict: bool | None = None


class _Tool(msgspec.Struct):
    function: _Function
    type: str = "function"


class Encoded(msgspec.Struct):
    """A request body, and the JSON paths of fields that this server cannot be told of."""

    body: bytes
    ignored: list[str]


def encode_functions(functions: Sequence[FunctionSpec], flags: Flags) -> bytes:
    """The `tools` list; it depends on nothing but its arguments, so it may be kept."""
    tools: list[_Tool] = []
    for spec in functions:
        parameters = _parameters(spec.parameters) if bytes(spec.parameters) else None
        strict = spec.strict if flags.strict_tools else None
        tools.append(_Tool(_Function(spec.name, spec.description, parameters, strict)))
    return json.encode(tools)


class _Schema(msgspec.Struct):
    type: Any = None
    properties: Raw = Raw(b"null")


_schema = json.decoder(_Schema)


def _parameters(raw: Raw) -> Raw:
    """An object's schema with `properties`, which strict validators want."""
    try:
        schema = _schema(raw)
    except (msgspec.DecodeError, RecursionError):
        return raw
    if schema.type == "object" and json.is_null(schema.properties):
        return Raw(json.merge(raw, properties={}))
    return raw


def encode_request(
    request: TurnRequest,
    *,
    model: str,
    items: Iterable[Flat],
    tools: bytes,
    choice: WireChoice,
    flags: Flags,
) -> Encoded:
    """The request body of one round. `tools` comes from encode_functions, empty if there are none.

    Raises ApiError 400 for what the server cannot be given: images it does not see, an output for
    a call that is not there, a call without output.
    """
    ignored: list[str] = []
    fields: dict[str, Any] = {
        "model": model,
        "messages": _Messages(flags).build(request.instructions, items),
    }
    if tools:
        fields["tools"] = Raw(tools)
        _choose(fields, choice, flags)
        if request.parallel_tool_calls is not None and flags.parallel_tool_calls:
            fields["parallel_tool_calls"] = request.parallel_tool_calls
    if request.max_output_tokens is not None:
        name = "max_completion_tokens" if flags.max_completion_tokens else "max_tokens"
        fields[name] = request.max_output_tokens
    if request.temperature is not None:
        fields["temperature"] = request.temperature
    if request.top_p is not None:
        fields["top_p"] = request.top_p
    _text(fields, request, flags, ignored)
    _reasoning(fields, request, flags, ignored)
    if request.stream:
        fields["stream"] = True
        if flags.stream_usage:
            fields["stream_options"] = {"include_usage": True}
    return Encoded(json.encode(fields), ignored)


def _choose(fields: dict[str, Any], choice: WireChoice, flags: Flags) -> None:
    if choice.name is not None:
        fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif choice.allowed is not None and flags.allowed_tools:
        named = [{"type": "function", "function": {"name": name}} for name in choice.allowed]
        fields["tool_choice"] = {
            "type": "allowed_tools",
            "allowed_tools": {"mode": choice.mode, "tools": named},
        }
    elif choice.mode != "auto":
        fields["tool_choice"] = choice.mode


def _text(fields: dict[str, Any], request: TurnRequest, flags: Flags, ignored: list[str]) -> None:
    form = request.text.format
    if form is not None and form.type != "text":
        if form.type == "json_schema" and not flags.structured_output:
            raise invalid(
                "The model's server cannot hold its output to a JSON schema.",
                "text.format",
                code="unsupported_value",
            )
        fields["response_format"] = _response_format(form)
    if request.text.verbosity is not None:
        if flags.verbosity:
            fields["verbosity"] = request.text.verbosity
        else:
            ignored.append("text.verbosity")


def _response_format(form: TextFormat) -> dict[str, Any]:
    if form.type == "json_object":
        return {"type": "json_object"}
    nested: dict[str, Any] = {"name": form.name}
    if form.description is not None:
        nested["description"] = form.description
    nested["schema"] = form.schema
    if form.strict is not None:
        nested["strict"] = form.strict
    return {"type": "json_schema", "json_schema": nested}


def _reasoning(
    fields: dict[str, Any], request: TurnRequest, flags: Flags, ignored: list[str]
) -> None:
    effort = request.reasoning.effort
    if effort is None:
        return
    if flags.reasoning_effort == "reasoning_effort":
        fields["reasoning_effort"] = effort
    elif flags.reasoning_effort == "enable_thinking":
        fields["chat_template_kwargs"] = {"enable_thinking": effort != "none"}
    else:
        ignored.append("reasoning.effort")


class _Messages:
    """Builds the list. While calls wait for their results, other messages are kept until all
    results stand behind them; an assistant's text before its next message joins the calls."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._done: list[_Message] = []
        self._assistant: _Message | None = None
        self._waiting: dict[str, None] = {}
        self._answered: set[str] = set()
        self._later: list[_Message] = []
        self._images: list[dict[str, Any]] = []
        self._thought: Thought | None = None

    def build(self, instructions: str | None, items: Iterable[Flat]) -> list[_Message]:
        if instructions:
            self._done.append(_Message("system", instructions))
        for item in items:
            if isinstance(item, Message):
                self._message(item)
            elif isinstance(item, FunctionCall):
                self._call(item)
            elif isinstance(item, FunctionCallOutput):
                self._output(item)
            else:
                if not self._waiting:
                    self._flush_results()
                self._thought = item
        if self._waiting:
            call_id = next(iter(self._waiting))
            raise invalid(f"No tool output found for function call {call_id}.", "input")
        self._flush_results()
        return self._done

    def _message(self, item: Message) -> None:
        if item.role == "assistant":
            self._assistant_text(item)
            return
        role = item.role
        if role == "developer" and not self._flags.developer_role:
            role = "system"
        message = _Message(role, self._content(item.content))
        if self._waiting:
            self._later.append(message)
            return
        if self._answered:
            self._flush_results()
        self._assistant = None
        self._thought = None
        self._done.append(message)

    def _assistant_text(self, item: Message) -> None:
        if not isinstance(item.content, str) and any(p.type == "input_image" for p in item.content):
            raise invalid(
                "An assistant's message cannot hold images.", "input", code="unsupported_value"
            )
        text = _plain(item.content)
        if self._waiting and self._assistant is not None:
            # Servers want results right behind the calls: the text joins the message before.
            said = self._assistant.content
            self._assistant.content = said + text if isinstance(said, str) else text
            return
        if self._answered:
            self._flush_results()
        self._new_assistant(text)

    def _new_assistant(self, text: str | None) -> _Message:
        message = self._assistant = _Message("assistant", text)
        if self._thought is not None:
            self._attach_thought(message)
        self._done.append(message)
        return message

    def _attach_thought(self, message: _Message) -> None:
        thought, self._thought = self._thought, None
        if thought is None:
            return
        match self._flags.reasoning_replay:
            case "reasoning_content":
                message.reasoning_content = (message.reasoning_content or "") + thought.text
            case "reasoning":
                message.reasoning = (message.reasoning or "") + thought.text
            case "reasoning_details":
                details = [*(message.reasoning_details or ()), *thought.details]
                message.reasoning_details = details or None
            case "none":
                pass

    def _call(self, item: FunctionCall) -> None:
        if item.call_id in self._waiting:
            raise invalid(f"Duplicate function call id {item.call_id}.", "input")
        message = self._assistant
        if not self._waiting and (self._answered or self._thought is not None):
            self._flush_results()
            message = None
        elif item.call_id in self._answered:
            raise invalid(f"Duplicate function call id {item.call_id}.", "input")
        if message is None:
            message = self._new_assistant(None)
        else:
            self._attach_thought(message)
        call = _ToolCall(item.call_id, _Named(item.name, item.arguments))
        if message.tool_calls is None:
            message.tool_calls = []
        message.tool_calls.append(call)
        self._waiting[item.call_id] = None

    def _output(self, item: FunctionCallOutput) -> None:
        call_id = item.call_id
        if call_id not in self._waiting:
            again = call_id in self._answered
            raise invalid(
                f"Duplicate tool output for function call {call_id}."
                if again
                else f"No tool call found for function call output with call_id {call_id}.",
                "input",
            )
        del self._waiting[call_id]
        self._answered.add(call_id)
        output = item.output
        if isinstance(output, str):
            text = output
        else:
            text = _plain(output)
            images = [part for part in output if part.type == "input_image"]
            if images:
                text = text or "(image below)"
                label = {"type": "text", "text": f"Images returned by tool call {call_id}:"}
                self._images += [label, *map(self._image, images)]
        self._done.append(_Message("tool", text, tool_call_id=call_id))
        if not self._waiting and self._later:
            self._flush_results()

    def _flush_results(self) -> None:
        """The run of results is over: what had to wait follows it."""
        if self._answered:
            self._assistant = None
            self._answered = set()
        if self._images:
            self._done.append(_Message("user", self._images))
            self._images = []
        if self._later and not self._waiting:
            self._done += self._later
            self._later = []

    def _content(self, content: str | list[Part]) -> str | list[dict[str, Any]]:
        if isinstance(content, str):
            return content
        if len(content) == 1 and content[0].type != "input_image":
            return _part_text(content[0])
        if all(part.type != "input_image" for part in content):
            return [{"type": "text", "text": _part_text(part)} for part in content]
        return [
            self._image(part)
            if part.type == "input_image"
            else {"type": "text", "text": _part_text(part)}
            for part in content
        ]

    def _image(self, part: Part) -> dict[str, Any]:
        if not self._flags.image_input:
            raise invalid(
                "The model's server does not take images.", "input", code="unsupported_value"
            )
        image: dict[str, Any] = {"url": part.image_url}
        if part.detail is not None:
            image["detail"] = part.detail
        return {"type": "image_url", "image_url": image}


def _part_text(part: Part) -> str:
    return part.text or part.refusal or ""


def _plain(content: str | list[Part]) -> str:
    if isinstance(content, str):
        return content
    if len(content) == 1:
        return _part_text(content[0])
    return "".join(map(_part_text, content))
