"""Makes annotations of the markers that a model writes: the client sees no marker, and the model sees
its own again when it reads what it has said.

Texts of messages are looked through; reasoning, refusals and the arguments of calls are left as they are.
Annotations of the model's own server stay, moved to where their text is now.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from bascule.engine.cited_part import CitedPart
from bascule.engine.marked_text import HELD
from bascule.protocols import json
from bascule.protocols.responses.events import (
    AnnotationAdded,
    ContentPartDone,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    PassedEvent,
    RoundEvent,
)
from bascule.protocols.responses.items import (
    Flat,
    Message,
    MessageItem,
    OpenItem,
    OutputText,
    Part,
    Refusal,
)
from bascule.toolkit.citations import Citations

T = TypeVar("T")


class Citer:
    """A stage in front of all that is public; one for each turn whose chain has sources."""

    def __init__(self, citations: Citations) -> None:
        self._citations = citations
        self._parts: dict[tuple[int, int], CitedPart] = {}
        self._last: CitedPart | None = None
        self._said: dict[int, list[Flat]] = {}
        self.unknown = 0
        """How many numbers of markers named no source: these are gone without a trace."""

    def begin_round(self) -> None:
        self._parts.clear()
        self._last = None
        self._said.clear()

    def said(self, index: int) -> list[Flat] | None:
        """The finished message at the server's `index` as the model wrote it, if it had markers."""
        return self._said.get(index)

    def feed(self, events: Sequence[RoundEvent]) -> Sequence[RoundEvent]:
        """One batch of an answer, as the client is to see it."""
        out: list[RoundEvent] = []
        for event in events:
            if type(event) is OutputTextDelta:
                part, delta = self._last, event.delta
                if (
                    part is not None
                    and part.is_plain
                    and event.content_index == part.at
                    and event.output_index == part.index
                    and delta[-1:] not in HELD
                    and "[" not in delta
                    and "【" not in delta
                    and not event.logprobs
                ):  # most deltas, for the sake of speed: nothing in them can be of a marker
                    part.say(delta)
                    out.append(event)
                else:
                    self._delta(event, out)
                continue
            handle = _HANDLERS.get(type(event))
            if handle is None or handle(self, event, out):
                out.append(event)
        return out

    def _delta(self, event: OutputTextDelta, out: list[RoundEvent]) -> None:
        part = self._part(event.output_index, event.content_index)
        if part.delta(event) is not None:
            out.append(event)
        if part.out:
            _take(part, out)

    def _part(self, index: int, at: int) -> CitedPart:
        part = self._parts.get((index, at))
        if part is None:
            part = self._parts[index, at] = CitedPart(self._citations, index, at)
        self._last = part
        return part

    def _finish(self, part: CitedPart, text: str, out: list[RoundEvent]) -> bool:
        """Say what is left of a part; whether it had markers."""
        marked = part.finish(text)
        _take(part, out)
        self.unknown += part.unknown
        part.unknown = 0
        return marked

    # --- events as the gateway makes them; handlers say whether the event itself goes on

    def text_done(self, event: OutputTextDone, out: list[RoundEvent]) -> bool:
        part = self._part(event.output_index, event.content_index)
        if self._finish(part, event.text, out):
            event.text = part.text
            event.logprobs = part.logprobs(event.logprobs)
        return True

    def annotation(self, event: AnnotationAdded, out: list[RoundEvent]) -> bool:
        part = self._part(event.output_index, event.content_index)
        part.annotation(event)
        _take(part, out)
        return False

    def part_done(self, event: ContentPartDone, out: list[RoundEvent]) -> bool:
        event.part = self._shown(event.output_index, event.content_index, event.part, out)
        return True

    def _shown(self, index: int, at: int, part: Any, out: list[RoundEvent]) -> Any:
        """A finished part of a message, without markers."""
        if isinstance(part, OutputText):
            known = self._part(index, at)
            if not self._finish(known, part.text, out):
                return part
            return OutputText(
                known.text, known.annotations(part.annotations), known.logprobs(part.logprobs)
            )
        members = json.as_object(part)
        if members is None or _text(members.get("type")) != "output_text":
            return part
        known = self._part(index, at)
        if not self._finish(known, _text(members.get("text")), out):
            return members
        return {
            **members,
            "text": known.text,
            "annotations": known.annotations(_listed(members.get("annotations"))),
            "logprobs": known.logprobs(_listed(members.get("logprobs"))),
        }

    # --- events as a server that speaks Responses made them

    def passed(self, event: PassedEvent, out: list[RoundEvent]) -> bool:
        handle = _PASSED.get(event.name)
        if handle is None:
            return True
        at = _read(_number, event.members.get("content_index")) or 0
        return handle(self, event, at, out)

    def passed_delta(self, event: PassedEvent, at: int, out: list[RoundEvent]) -> bool:
        members = event.members
        delta = OutputTextDelta(-1, "", event.output_index, at, _text(members.get("delta")))
        delta.logprobs = _listed(members.get("logprobs"))
        part = self._part(event.output_index, at)
        if part.delta(delta) is not None:
            members["delta"] = Raw(json.encode(delta.delta))
            if "logprobs" in members:
                members["logprobs"] = Raw(json.encode(delta.logprobs))
            out.append(event)
        _take(part, out)
        return False

    def passed_done(self, event: PassedEvent, at: int, out: list[RoundEvent]) -> bool:
        members = event.members
        part = self._part(event.output_index, at)
        if self._finish(part, _text(members.get("text")), out):
            tokens = part.logprobs(_listed(members.get("logprobs")))
            members["text"] = Raw(json.encode(part.text))
            members["logprobs"] = Raw(json.encode(tokens))
        return True

    def passed_annotation(self, event: PassedEvent, at: int, out: list[RoundEvent]) -> bool:
        part = self._part(event.output_index, at)
        part.annotation(event)
        _take(part, out)
        return False

    def passed_part(self, event: PassedEvent, at: int, out: list[RoundEvent]) -> bool:
        part = _read(_members, event.members.get("part"))
        if part is not None:
            shown = self._shown(event.output_index, at, part, out)
            event.members["part"] = Raw(json.encode(shown))
        return True

    # --- items

    def item_done(self, event: OutputItemDone, out: list[RoundEvent]) -> bool:
        item, index = event.item, event.output_index
        if isinstance(item, MessageItem):
            said = Message(item.role, [_part(part) for part in item.content])
            content = [self._shown(index, at, part, out) for at, part in enumerate(item.content)]
            if self._is_marked(index):
                item.content = content
                self._said[index] = [said]
        elif isinstance(item, OpenItem) and item.type == "message":
            self._open_done(item, index, out)
        return True

    def _open_done(self, item: OpenItem, index: int, out: list[RoundEvent]) -> None:
        parts = _read(_contents, item.members.get("content")) or []
        content = [self._shown(index, at, part, out) for at, part in enumerate(parts)]
        if not self._is_marked(index):
            return
        said = _read(_message, Raw(item.encode()))
        if said is not None:
            said.id = None  # it is that server's own
            self._said[index] = [said]
        item.members["content"] = Raw(json.encode(content))

    def _is_marked(self, index: int) -> bool:
        return any(part.marked.marks for (of, _), part in self._parts.items() if of == index)


_HANDLERS: Final[dict[type, Callable[[Citer, Any, list[RoundEvent]], bool]]] = {
    OutputTextDone: Citer.text_done,
    AnnotationAdded: Citer.annotation,
    ContentPartDone: Citer.part_done,
    PassedEvent: Citer.passed,
    OutputItemDone: Citer.item_done,
}
_PASSED: Final[dict[str, Callable[[Citer, PassedEvent, int, list[RoundEvent]], bool]]] = {
    "response.output_text.delta": Citer.passed_delta,
    "response.output_text.done": Citer.passed_done,
    "response.output_text.annotation.added": Citer.passed_annotation,
    "response.content_part.done": Citer.passed_part,
}

_contents = json.decoder(list[dict[str, Raw]])
_members = json.decoder(dict[str, Raw])
_list = json.decoder(list[Raw])
_number = json.decoder(int)
_string = json.decoder(str)
_message = json.decoder(Message)


def _take(part: CitedPart, out: list[RoundEvent]) -> None:
    out += part.out
    part.out.clear()


def _part(part: OutputText | Refusal) -> Part:
    if isinstance(part, OutputText):
        return Part("output_text", text=part.text)
    return Part("refusal", refusal=part.refusal)


def _read(decode: Callable[[Raw], T], raw: Raw | None) -> T | None:
    """A member of a server's event; None where it is missing or of another form."""
    try:
        return None if raw is None else decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(value: Any) -> str:
    """A member that is a string, decoded or not; empty if it is something else."""
    found = _read(_string, value) if isinstance(value, Raw) else value
    return found if isinstance(found, str) else ""


def _listed(value: Any) -> list[Any]:
    """A member that is a list, decoded or not; empty if it is something else."""
    found: Any = _read(_list, value) if isinstance(value, Raw) else value
    return [*found] if isinstance(found, list | tuple) else []
