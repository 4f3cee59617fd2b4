"""A turn as a Chat Completions request.

The four flat kinds of items become messages so that every server accepts them: calls and the results
they belong to stand together, text is a string where it can be, and roles are those that the server
knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.protocols import capabilities, json
from bascule.protocols.chat.parts import (
    PartRefused,
    encode_part,
    is_media,
    part_text,
    place_of,
)
from bascule.protocols.errors import invalid
from bascule.protocols.flags import Flags
from bascule.protocols.function import FunctionSpec, Offered, WireChoice
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Part,
    Thought,
)
from bascule.protocols.responses.request import LOGPROBS, TextFormat, TurnRequest


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


def encode_tools(offered: Sequence[Offered], flags: Flags) -> bytes:
    """The `tools` list; it depends on nothing but its arguments, so it may be kept."""
    tools: list[_Tool] = []
    for spec in offered:
        if not isinstance(spec, FunctionSpec):
            raise TypeError("Chat Completions knows functions only")
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
    constraint: Mapping[str, Any] | None = None,
) -> Encoded:
    """The request body of one round. `tools` comes from encode_tools, empty if there are none;
    `constraint` are further members, which hold the answer's text to a grammar.

    Raises ApiError 400 for what the server cannot be given: fields that Chat has no place for, images
    it does not see, an output for a call that is not there, a call without output.
    """
    capabilities.check_fields(request.passed, "chat")
    ignored: list[str] = []
    try:
        messages = _Messages(flags).build(request.instructions, items)
    except PartRefused as e:
        raise invalid(str(e), place_of(e.part, request.input), "unsupported_value") from None
    fields: dict[str, Any] = {"model": model, "messages": messages}
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
    _passed(fields, request, flags, ignored)
    _logprobs(fields, request, flags, ignored)
    _text(fields, request, flags, ignored)
    _reasoning(fields, request, flags, ignored)
    if request.stream:
        fields["stream"] = True
        if flags.stream_usage:
            fields["stream_options"] = {"include_usage": True}
    if constraint is not None:
        fields |= constraint
    return Encoded(json.encode(fields), ignored)


def _passed(fields: dict[str, Any], request: TurnRequest, flags: Flags, ignored: list[str]) -> None:
    """Fields that are the same on both protocols."""
    for name in request.passed:
        row = capabilities.FIELDS[name]
        if capabilities.verdict(row, "chat", flags) == "honoured":
            fields[name] = request.raw[name]
        elif not capabilities.asks_for_nothing(row, request.raw[name]):
            ignored.append(name)


def _logprobs(
    fields: dict[str, Any], request: TurnRequest, flags: Flags, ignored: list[str]
) -> None:
    row = capabilities.FIELDS["top_logprobs"]
    known = capabilities.verdict(row, "chat", flags) == "honoured"
    if known and request.wants_logprobs:
        fields["logprobs"] = True
        if request.top_logprobs:
            fields["top_logprobs"] = request.top_logprobs
        return
    if request.wants_logprobs:
        ignored.append(f"include[{request.include.index(LOGPROBS)}]")
    if request.top_logprobs:
        ignored.append("top_logprobs")


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
        row = capabilities.OPTIONS["text.format"]
        verdict = capabilities.verdict(row, "chat", flags)
        if form.type == "json_schema" and verdict == "refused":
            raise invalid(
                "The model's server cannot hold its output to a JSON schema.",
                "text.format",
                code="unsupported_value",
            )
        fields["response_format"] = _response_format(form)
    if request.text.verbosity is not None:
        row = capabilities.OPTIONS["text.verbosity"]
        if capabilities.verdict(row, "chat", flags) == "honoured":
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
    for name in ("context", "mode"):
        value = getattr(request.reasoning, name)
        row = capabilities.OPTIONS[f"reasoning.{name}"]
        if value is not None and not capabilities.asks_for_nothing(row, json.encode(value)):
            ignored.append(row.name)
    effort = request.reasoning.effort
    if effort is None:
        return
    if flags.reasoning_effort == "reasoning_effort":
        fields["reasoning_effort"] = effort
    elif flags.reasoning_effort == "enable_thinking":
        fields["chat_template_kwargs"] = {"enable_thinking": effort != "none"}
    else:
        ignored.append("reasoning.effort")


_RUNNING: Final = (
    "(The call is running. Its result will come later, as that of a further call of this tool.)"
)


class _Messages:
    """Builds the list. While calls wait for their results, other messages are kept until all
    results stand behind them; an assistant's text before its next message joins the calls.

    Asynchronous calls hold nothing up: where the conversation goes on before their result, a
    placeholder takes its place, and the result itself follows as that of a further call. So what a
    server has read of a conversation never changes, and it finds a result behind every call.
    """

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._done: list[_Message] = []
        self._assistant: _Message | None = None
        self._waiting: dict[str, None] = {}
        self._answered: set[str] = set()
        self._later: list[_Message] = []
        self._media: list[dict[str, Any]] = []
        self._thought: Thought | None = None
        self._late: dict[str, tuple[_Named, int]] = {}
        """Asynchronous calls, and how many results they had after the conversation went on."""

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
            elif isinstance(item, Thought):
                self._go_on()
                if not self._waiting:
                    self._flush_results()
                self._thought = item
            else:
                raise TypeError("an item for a server that speaks Responses has come to another")
        self._go_on()
        if self._waiting:
            call_id = next(call_id for call_id in self._waiting if call_id not in self._late)
            raise invalid(f"No tool output found for function call {call_id}.", "input")
        self._flush_results()
        return self._done

    def _message(self, item: Message) -> None:
        if item.role == "assistant":
            self._assistant_text(item)
            return
        self._go_on()
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
        if not isinstance(item.content, str):
            for part in item.content:
                if is_media(part):
                    raise PartRefused(
                        "An assistant's message cannot hold images, files or audio.", part
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

    def _go_on(self) -> None:
        """Stop waiting, if all that is waited for may come later."""
        if not self._waiting or not self._waiting.keys() <= self._late.keys():
            return
        self._done += [_Message("tool", _RUNNING, tool_call_id=id_) for id_ in self._waiting]
        self._answered.update(self._waiting)
        self._waiting = {}
        self._flush_results()

    def _call(self, item: FunctionCall) -> None:
        if self._answered:
            self._go_on()
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
        if item.asynchronous:
            self._late[item.call_id] = (call.function, 0)
        if message.tool_calls is None:
            message.tool_calls = []
        message.tool_calls.append(call)
        self._waiting[item.call_id] = None

    def _output(self, item: FunctionCallOutput) -> None:
        call_id = item.call_id
        if call_id in self._late and call_id not in self._waiting:
            self._late_output(item)
            return
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
        text, media = self._said(item)
        self._media += media
        self._done.append(_Message("tool", text, tool_call_id=call_id))
        if self._later:
            self._go_on()
        if not self._waiting and self._later:
            self._flush_results()

    def _said(self, item: FunctionCallOutput) -> tuple[str, list[dict[str, Any]]]:
        """A result's text, and what has to follow in a message of the user's."""
        output = item.output
        if isinstance(output, str):
            return output, []
        text = _plain(output)
        parts = [part for part in output if is_media(part)]
        if not parts:
            return text, []
        label = {"type": "text", "text": _label(parts, item.call_id)}
        media = [label, *(encode_part(part, self._flags) for part in parts)]
        return text or _below(parts), media

    def _late_output(self, item: FunctionCallOutput) -> None:
        """The result of an asynchronous call, after the conversation went on."""
        function, number = self._late[item.call_id]
        self._late[item.call_id] = (function, number + 1)
        id_ = f"{item.call_id}_{number + 2}"
        text, media = self._said(item)
        messages = [
            _Message("assistant", None, [_ToolCall(id_, function)]),
            _Message("tool", text, tool_call_id=id_),
        ]
        if media:
            messages.append(_Message("user", media))
        if self._waiting:
            self._later += messages
            return
        self._flush_results()
        self._assistant = self._thought = None
        self._done += messages

    def _flush_results(self) -> None:
        """The run of results is over: what had to wait follows it."""
        if self._answered:
            self._assistant = None
            self._answered = set()
        if self._media:
            self._done.append(_Message("user", self._media))
            self._media = []
        if self._later and not self._waiting:
            self._done += self._later
            self._later = []

    def _content(self, content: str | list[Part]) -> str | list[dict[str, Any]]:
        if isinstance(content, str):
            return content
        if len(content) == 1 and not is_media(content[0]):
            return part_text(content[0])
        return [encode_part(part, self._flags) for part in content]


def _below(media: Sequence[Part]) -> str:
    return "(image below)" if _all_images(media) else "(files below)"


def _label(media: Sequence[Part], call_id: str) -> str:
    return f"{'Images' if _all_images(media) else 'Files'} returned by tool call {call_id}:"


def _all_images(media: Sequence[Part]) -> bool:
    return all(part.image_url is not None for part in media)


def _plain(content: str | list[Part]) -> str:
    if isinstance(content, str):
        return content
    if len(content) == 1:
        return part_text(content[0])
    return "".join(map(part_text, content))
