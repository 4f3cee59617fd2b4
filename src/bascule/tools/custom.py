"""`custom`: a tool that takes free text. The model writes a function with one string, `input`; the
client reads the text."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.grammar import Grammar, Syntax
from bascule.protocols.responses.events import ItemEvent
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Part,
    Passed,
)
from bascule.protocols.responses.request import ToolRef
from bascule.protocols.upstream import ModelSurface
from bascule.toolkit.grammar import MalformedGrammar, TextGrammar
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.free_text import FreeText
from bascule.tools.function import Answer, check_output, without
from bascule.tools.options import Callers, ignored_options, may_be_called


class CustomFormat(msgspec.Struct):
    """`format`: plain text, or text of a grammar."""

    type: Literal["text", "grammar"]
    syntax: Syntax | None = None
    definition: str | None = None


class CustomParams(msgspec.Struct):
    name: str
    description: str | None = None
    format: CustomFormat | None = None
    defer_loading: bool | None = None
    allowed_callers: Callers = None
    asynchronous: bool | None = msgspec.field(name="async", default=None)


class Custom(msgspec.Struct):
    """A declaration that was found to be right."""

    declared: CustomParams
    grammar: TextGrammar | None


_decode = json.decoder(CustomParams)
_PARAMETERS = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],'
    b'"additionalProperties":false}'
)


class CustomToolCall(msgspec.Struct):
    """View of a `custom_tool_call`."""

    call_id: str
    name: str
    input: str
    namespace: str | None = None
    asynchronous: bool | None = msgspec.field(name="async", default=None)


class CustomToolCallItem(
    msgspec.Struct, tag_field="type", tag="custom_tool_call", omit_defaults=True
):
    id: str
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: str | None = None
    asynchronous: bool = msgspec.field(name="async", default=False)


class CustomToolCallOutput(msgspec.Struct):
    """View of a `custom_tool_call_output`."""

    call_id: str
    output: str | list[Part]


class InputDelta(ItemEvent, tag="response.custom_tool_call_input.delta"):
    delta: str = ""


class InputDone(ItemEvent, tag="response.custom_tool_call_input.done"):
    input: str = ""


class CustomHandler(ToolHandler[Custom]):
    """Executed by the client."""

    types: ClassVar[frozenset[str]] = frozenset({"custom"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"custom_tool_call", "custom_tool_call_output"}
    )

    names_late: ClassVar[bool] = False

    def parse(self, declaration: Raw, param: str) -> Custom:
        params = json.field(_decode, declaration, param)
        if not params.name:
            raise invalid(f"'{param}.name' is empty.", f"{param}.name", "empty_string")
        return Custom(params, _grammar(params.format, f"{param}.format"))

    def echo(self, declaration: Raw, params: Custom) -> Raw:
        """With its defaults, as recorded at OpenAI."""
        members = json.envelope(bytes(declaration))
        members.setdefault("description", Raw(b"null"))
        members.setdefault("format", Raw(b'{"type":"text"}'))
        return Raw(json.encode(members))

    def normalize(self, params: Custom) -> Sequence[Tool]:
        identity = Identity(None, params.declared.name, "custom")
        return [
            Tool(
                identity,
                _description(params),
                _PARAMETERS,
                lenient=True,
                grammar=params.grammar,
                offered=may_be_called(params.declared.allowed_callers),
                deferred=bool(params.declared.defer_loading),
                ignored=ignored_options(params.declared.allowed_callers),
                members={"async": True} if params.declared.asynchronous else {},
            )
        ]

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        return Identity.of(ref.namespace, ref.name or "", "custom") == identity

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection:
        return CustomProjection(writer, call, identity)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "custom_tool_call_output":
            output = item.view(CustomToolCallOutput, param)
            check_output(output.output, f"{param}.output")
            return [FunctionCallOutput(output.call_id, output.output)]
        call = item.view(CustomToolCall, param)
        wire = names.assign(Identity.of(call.namespace, call.name, "custom"))
        arguments = json.encode({"input": call.input}).decode()
        return [FunctionCall(call.call_id, wire, arguments, asynchronous=call.asynchronous)]

    def forward(
        self, item: Item, names: Ledger, surface: ModelSurface, param: str
    ) -> Sequence[Flat]:
        data = item.unminted() if surface.family else without(item.unminted(), "caller")
        if item.type == "custom_tool_call_output":
            return [Passed(data, answers=item.view(Answer, param).call_id)]
        made = item.view(CustomToolCall, param)
        return [Passed(data, call_id=None if made.asynchronous else made.call_id)]

    def answers(self, item: Item) -> str | None:
        if item.type != "custom_tool_call_output":
            return None
        return item.view(CustomToolCallOutput).call_id


def _grammar(form: CustomFormat | None, param: str) -> TextGrammar | None:
    if form is None or form.type == "text":
        return None
    for name in ("syntax", "definition"):
        if getattr(form, name) is None:
            raise invalid(
                f"Missing required parameter: '{param}.{name}'.",
                f"{param}.{name}",
                "missing_required_parameter",
            )
    grammar = Grammar(form.syntax or "lark", form.definition or "")
    try:
        return TextGrammar(grammar, "input", FreeText)
    except MalformedGrammar as e:
        place = f"{param}.definition"
        raise invalid(f"Invalid grammar in '{place}': {e}", place, "invalid_grammar") from None


def _description(custom: Custom) -> str:
    lines = [custom.declared.description or ""]
    if custom.grammar is not None:
        syntax, definition = custom.grammar.grammar.syntax, custom.grammar.grammar.definition
        lines.append(f"`input` must match this {syntax} grammar:\n{definition}")
    return "\n\n".join(filter(None, lines))


class CustomProjection(Projection):
    """Streams the text while the model writes the JSON around it."""

    id_prefix: ClassVar[str] = "ctc"

    def __init__(self, writer: ItemWriter, call: Call, identity: Identity) -> None:
        super().__init__(writer, call)
        self._identity = identity
        self._text = FreeText()

    def begin(self) -> None:
        self.writer.added(self._item("in_progress", ""))

    def arguments(self, fragment: str) -> None:
        text = self._text.feed(fragment)
        if text:
            self.writer.event(InputDelta(-1, "", 0, text))

    def complete(self, arguments: str, status: ItemStatus) -> None:
        rest = self._text.finish()
        if rest:
            self.writer.event(InputDelta(-1, "", 0, rest))
        text = self._text.text
        self.writer.event(InputDone(-1, "", 0, text))
        self.writer.done(self._item(status, text))

    def _item(self, status: ItemStatus, text: str) -> Any:
        return CustomToolCallItem(
            self.writer.item_id,
            status,
            self.call.call_id,
            self._identity.name,
            text,
            self._identity.namespace,
            self.members.get("async", False),
        )
