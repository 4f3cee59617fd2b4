"""Stream events of the Responses API.

An upstream's decoder makes them with its own ids and indexes, or none; the accumulator sets
`sequence_number`, `item_id` and `output_index` in place before they leave.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from bascule.protocols.responses.response import Snapshot, Usage


class Event(msgspec.Struct, tag_field="type", gc=False):
    """What all events have."""

    FRAME: ClassVar[bytes] = b""
    """The SSE lines before the JSON."""
    sequence_number: int = -1


def frame(event: Event) -> bytes:
    """The SSE lines before an event's JSON."""
    cls = type(event)
    if not cls.FRAME:
        cls.FRAME = f"event: {cls.__struct_config__.tag}\ndata: ".encode()
    return cls.FRAME


class ItemEvent(Event):
    """An event about one item."""

    item_id: str = ""
    output_index: int = 0


class IndexEvent(Event):
    """An event about one item that names its place only."""

    output_index: int = 0


class OutputItemAdded(Event, tag="response.output_item.added"):
    output_index: int = 0
    item: Any = None


class OutputItemDone(Event, tag="response.output_item.done"):
    output_index: int = 0
    item: Any = None


class ContentPartAdded(ItemEvent, tag="response.content_part.added"):
    content_index: int = 0
    part: Any = None


class ContentPartDone(ItemEvent, tag="response.content_part.done"):
    content_index: int = 0
    part: Any = None


class OutputTextDelta(ItemEvent, tag="response.output_text.delta"):
    content_index: int = 0
    delta: str = ""
    logprobs: Sequence[Any] = ()


class OutputTextDone(ItemEvent, tag="response.output_text.done"):
    content_index: int = 0
    text: str = ""
    logprobs: list[Any] = []


class AnnotationAdded(ItemEvent, tag="response.output_text.annotation.added"):
    content_index: int = 0
    annotation_index: int = 0
    annotation: Any = None


class RefusalDelta(ItemEvent, tag="response.refusal.delta"):
    content_index: int = 0
    delta: str = ""


class RefusalDone(ItemEvent, tag="response.refusal.done"):
    content_index: int = 0
    refusal: str = ""


class ReasoningTextDelta(ItemEvent, tag="response.reasoning_text.delta"):
    content_index: int = 0
    delta: str = ""


class ReasoningTextDone(ItemEvent, tag="response.reasoning_text.done"):
    content_index: int = 0
    text: str = ""


class SummaryPartAdded(ItemEvent, tag="response.reasoning_summary_part.added"):
    summary_index: int = 0
    part: Any = None


class SummaryPartDone(ItemEvent, tag="response.reasoning_summary_part.done"):
    summary_index: int = 0
    part: Any = None


class SummaryTextDelta(ItemEvent, tag="response.reasoning_summary_text.delta"):
    summary_index: int = 0
    delta: str = ""


class SummaryTextDone(ItemEvent, tag="response.reasoning_summary_text.done"):
    summary_index: int = 0
    text: str = ""


class ArgumentsDelta(ItemEvent, tag="response.function_call_arguments.delta"):
    delta: str = ""


class ArgumentsDone(ItemEvent, tag="response.function_call_arguments.done"):
    arguments: str = ""


class OtherItemEvent(ItemEvent):
    """An event of a tool's own lifecycle, such as `response.web_search_call.searching`."""

    name: str = ""
    fields: dict[str, Any] = {}


class PassedEvent(ItemEvent):
    """An event of a server that speaks Responses, its members as their bytes: about an item, or
    about none (`output_index` is then -1)."""

    name: str = ""
    members: dict[str, msgspec.Raw] = {}


class ErrorBody(msgspec.Struct):
    type: str
    code: str | None
    message: str
    param: str | None


class ErrorEvent(Event, tag="error"):
    """Nested, as OpenAI and Open Responses have it on the wire."""

    error: ErrorBody | None = None


class ResponseEvent(Event):
    """`created`, `in_progress` and the terminal ones, with the whole response.

    The response is encoded when the event is, and not at all for a reader who needs the last only.
    """

    name: str = ""
    response: Snapshot | None = None


class ReasoningTrace(msgspec.Struct):
    """Internal: what a reasoning item that is about to close consisted of at its upstream."""

    output_index: int
    text: str
    details: list[Any]


class RoundEnd(msgspec.Struct):
    """Internal: the upstream finished its answer."""

    usage: Usage | None = None
    incomplete_reason: str | None = None
    members: dict[str, msgspec.Raw] = {}
    """What a server that speaks Responses said of its response that nobody here knows."""
    service_tier: str | None = None
    """The tier that the server says it used."""


class RoundFailed(msgspec.Struct):
    """Internal: the upstream's answer broke off or said that it failed."""

    error: Any
    """An ApiError."""


RoundEvent = Event | ReasoningTrace | RoundEnd | RoundFailed
