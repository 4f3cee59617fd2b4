"""A request to create a response, decoded: every field typed, items and tools still as bytes."""

from typing import Final, Literal

import msgspec

from bascule.protocols import json
from bascule.protocols.responses.items import Item

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Mode = Literal["auto", "none", "required"]
Summary = Literal["auto", "concise", "detailed"]
Tier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]


class ToolRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool as a choice names it; `name` is absent for types that have no name."""

    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    """`mode`, or the one tool that must be called, and the hard limit `allowed` if there is one."""

    mode: Mode = "auto"
    named: ToolRef | None = None
    allowed: tuple[ToolRef, ...] | None = None


class TextFormat(msgspec.Struct):
    """`text.format`; `schema` keeps its bytes, since the order of properties matters."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: msgspec.Raw = msgspec.Raw()
    description: str | None = None
    strict: bool | None = None


class TextOptions(msgspec.Struct):
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningOptions(msgspec.Struct):
    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None
    """An old name of `summary`."""
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: Literal["standard", "pro"] | None = None

    @property
    def asked_summary(self) -> Summary | None:
        return self.summary or self.generate_summary


class StreamOptions(msgspec.Struct):
    include_obfuscation: bool | None = None


_list = json.decoder(list[msgspec.Raw])

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"


class TurnRequest(msgspec.Struct, kw_only=True):
    """What a client asked for. `raw` holds the fields' own bytes for the echo and for a relay."""

    model: str
    input: list[Item]
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | None = None
    store: bool = True
    stream: bool = False
    include: tuple[str, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] = "disabled"
    stream_options: StreamOptions | None = None
    text: TextOptions = msgspec.field(default_factory=TextOptions)
    reasoning: ReasoningOptions = msgspec.field(default_factory=ReasoningOptions)
    metadata: dict[str, str] | None = None
    ignored: tuple[str, ...] = ()
    """JSON paths of fields that were tolerated."""
    passed: tuple[str, ...] = ()
    """Fields that are for the model's server: its protocol and profile say what becomes of them."""
    raw: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)

    def tools(self) -> list[msgspec.Raw]:
        """The declarations, each as its bytes. Raises ApiError 400 if they are no list."""
        raw = self.raw.get("tools")
        return [] if raw is None else json.field(_list, raw, "tools")

    @property
    def wants_encrypted_reasoning(self) -> bool:
        return ENCRYPTED_REASONING in self.include

    @property
    def wants_logprobs(self) -> bool:
        return LOGPROBS in self.include

    @property
    def wants_obfuscation(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_obfuscation is True
