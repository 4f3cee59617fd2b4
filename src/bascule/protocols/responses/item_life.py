"""The life of one item of a server that speaks Responses: passes its events on, and adds what the
server left out, so that every item keeps the protocol's order.

Servers differ: one sends arguments whole without a delta, another never says that they are done, a
third lets the terminal event alone tell of an item.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ContentPartAdded,
    ContentPartDone,
    Event,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    PassedEvent,
    ReasoningTextDelta,
    ReasoningTextDone,
    RefusalDelta,
    RefusalDone,
    SummaryPartAdded,
    SummaryPartDone,
    SummaryTextDelta,
    SummaryTextDone,
)
from bascule.protocols.responses.items import OpenItem

_ARGUMENTS: Final = "response.function_call_arguments"
_INPUT: Final = "response.custom_tool_call_input"

# The events of a text, and the member of its part (or item) that holds it.
_TEXTS: Final[dict[str, tuple[Callable[..., Event], Callable[..., Event], str]]] = {
    "response.output_text": (OutputTextDelta, OutputTextDone, "text"),
    "response.refusal": (RefusalDelta, RefusalDone, "refusal"),
    "response.reasoning_text": (ReasoningTextDelta, ReasoningTextDone, "text"),
    "response.reasoning_summary_text": (SummaryTextDelta, SummaryTextDone, "text"),
    _ARGUMENTS: (ArgumentsDelta, ArgumentsDone, "arguments"),
}
_FAMILY: Final = {
    "output_text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning_text": "response.reasoning_text",
    "summary_text": "response.reasoning_summary_text",
}
_INDEX: Final = {
    **dict.fromkeys(
        (
            *("response.content_part", "response.output_text", "response.refusal"),
            *("response.reasoning_text", "response.output_text.annotation"),
        ),
        "content_index",
    ),
    **dict.fromkeys(
        ("response.reasoning_summary_part", "response.reasoning_summary_text"), "summary_index"
    ),
}
_PLAIN_DELTA: Final = frozenset(
    {
        *("type", "sequence_number", "item_id", "output_index", "delta"),
        *("content_index", "summary_index"),
    }
)
_LISTS: Final = {"annotations": Raw(b"[]"), "logprobs": Raw(b"[]")}
_WITH_STATUS: Final = frozenset({"message", "function_call", "custom_tool_call"})

_parts = json.decoder(list[dict[str, Raw]])
_string = json.decoder(str)


class _Text:
    """One text as far as it has come."""

    __slots__ = ("chunks", "done")

    def __init__(self) -> None:
        self.chunks: list[str] = []
        self.done = False


class ItemLife:
    """Appends events to `out`; `index` is the decoder's own, `place` the server's `output_index`."""

    def __init__(self, out: list[Any], index: int, place: int, item: OpenItem) -> None:
        self.out = out
        self.index = index
        self.place = place
        self.item = item
        self.closed = False
        self._texts: dict[tuple[str, int], _Text] = {}
        self._parts: dict[tuple[str, int], str] = {}
        self._order: dict[tuple[str, int], int] = {}
        item = OpenItem(item.type, dict(item.members))
        if item.type in _WITH_STATUS:
            item.members["status"] = Raw(b'"in_progress"')
        out.append(OutputItemAdded(-1, index, item))

    # --- what the server sends

    def delta(self, family: str, at: int, delta: str, logprobs: list[Raw] | None = None) -> None:
        """A piece of a text; `at` is the server's index of its part."""
        self._append(family, self._index_of(family, at), delta, logprobs)

    def _append(self, family: str, at: int, delta: str, logprobs: list[Raw] | None = None) -> None:
        text = self._text(family, at)
        if not delta or text.done:
            return
        self._open_part(family, at)
        text.chunks.append(delta)
        if family in (_ARGUMENTS, _INPUT):
            self._say(family, "delta", delta=delta)
            return
        event: Any = _TEXTS[family][0](-1, "", self.index, at, delta)
        if logprobs:
            event.logprobs = logprobs
        self.out.append(event)

    def event(self, name: str, members: dict[str, Raw]) -> None:
        """Any other event about the item."""
        family, _, step = name.rpartition(".")
        at = self._renumbered(family, members)
        if name in ("response.content_part.added", "response.reasoning_summary_part.added"):
            self._parts[_part_key(family, at)] = "added"
        elif name in ("response.content_part.done", "response.reasoning_summary_part.done"):
            self._parts[_part_key(family, at)] = "done"
        elif step == "done" and (family in _TEXTS or family == _INPUT):
            member = "input" if family == _INPUT else _TEXTS[family][2]
            value = self._complete(family, at, _as_text(members.get(member)))
            self._text(family, at).done = True
            if family == _ARGUMENTS:
                self._say(family, "done", arguments=value)
                return
            members[member] = Raw(json.encode(value))
        elif step == "delta" and self._take_delta(family, at, members):
            return
        _complete_parts(family, step, members)
        self.out.append(PassedEvent(-1, "", self.index, name, members))

    def _take_delta(self, family: str, at: int, members: dict[str, Raw]) -> bool:
        """Note a piece of a text; whether it has been said, since it has nothing more to tell."""
        if family not in _TEXTS and family != _INPUT:
            return False
        delta = _as_text(members.get("delta"))
        if family in _TEXTS and members.keys() <= _PLAIN_DELTA:
            self._append(family, at, delta)
            return True
        self._open_part(family, at)
        self._text(family, at).chunks.append(delta)
        return False

    def finish(self, item: OpenItem) -> None:
        """The item is whole: say what was not said of it, then that it is done."""
        if self.closed:
            return
        self.closed = True
        if item.type == "message":
            item.members["content"] = self._message(item)
        elif item.type == "reasoning":
            self._reasoning(item)
        elif item.type == "function_call":
            self._whole(_ARGUMENTS, item, "arguments")
        elif item.type == "custom_tool_call":
            self._whole(_INPUT, item, "input")
        if item.type in _WITH_STATUS and item.text("status") not in ("completed", "incomplete"):
            item.members["status"] = Raw(b'"completed"')
        self.out.append(OutputItemDone(-1, self.index, item))

    def cut(self, status: str) -> None:
        """The answer ends before the item does: it holds what has come."""
        members = dict(self.item.members)
        kind = self.item.type
        if kind == "message":
            members["content"] = Raw(json.encode(self._content()))
        elif kind == "reasoning":
            self._cut_reasoning(members)
        elif kind == "function_call":
            members["arguments"] = Raw(json.encode(self._so_far(_ARGUMENTS, 0)))
        elif kind == "custom_tool_call":
            members["input"] = Raw(json.encode(self._so_far(_INPUT, 0)))
        if kind != "reasoning" or status != "completed":
            members["status"] = Raw(json.encode(status))
        self.finish(OpenItem(kind, members))

    def _index_of(self, family: str, at: int) -> int:
        """Some servers count parts from 1, or over all items: here they count from 0."""
        kind = "summary" if "summary" in family else "content"
        return self._order.setdefault((kind, at), sum(k == kind for k, _ in self._order))

    def _renumbered(self, family: str, members: dict[str, Raw]) -> int:
        """The index of the part that the event is about; llama-server leaves it out."""
        name = _INDEX.get(family)
        if name is None:
            return 0
        raw = bytes(members.get(name, b"0"))
        at = self._index_of(family, int(raw) if raw.isdigit() else 0)
        members[name] = Raw(b"%d" % at)
        return at

    # --- what is left to say

    def _message(self, item: OpenItem) -> Raw:
        """Its content, in which each text has the list of annotations that readers expect."""
        content = _read_parts(item.members.get("content"))
        content += self._content()[len(content) :]
        for at, part in enumerate(content):
            family = _FAMILY.get(_as_text(part.get("type")))
            if family == "response.output_text":
                for name, empty in _LISTS.items():
                    part.setdefault(name, empty)
            self._part("response.content_part", family, at, part)
        return Raw(json.encode(content))

    def _reasoning(self, item: OpenItem) -> None:
        for name, part_family in (
            ("summary", "response.reasoning_summary_part"),
            ("content", "response.content_part"),
        ):
            for at, part in enumerate(_read_parts(item.members.get(name))):
                family = _FAMILY.get(_as_text(part.get("type")))
                said = self._texts.get((family or "", at))
                begun = (part_family, at) in self._parts
                if name == "content" and said is not None and said.done and not begun:
                    continue  # OpenAI writes raw reasoning without parts around it
                self._part(part_family, family, at, part)

    def _part(self, part_family: str, family: str | None, at: int, part: dict[str, Raw]) -> None:
        key = _part_key(part_family, at)
        if self._parts.get(key) == "done":
            if family is not None:
                part[_TEXTS[family][2]] = Raw(json.encode(self._so_far(family, at)))
            return
        if family is None:
            self._say_part(key, part, "added")
        else:
            member = _TEXTS[family][2]
            self._open_part(family, at)
            value = self._complete(family, at, _as_text(part.get(member)))
            part[member] = Raw(json.encode(value))
            text = self._text(family, at)
            if not text.done:
                text.done = True
                self.out.append(_TEXTS[family][1](-1, "", self.index, at, value))
        self._say_part(key, part, "done")

    def _whole(self, family: str, item: OpenItem, member: str) -> None:
        value = self._complete(family, 0, item.text(member))
        item.members[member] = Raw(json.encode(value))
        text = self._text(family, 0)
        if not text.done:
            text.done = True
            self._say(family, "done", **{member: value})

    def _complete(self, family: str, at: int, value: str) -> str:
        """A text that is now whole, after the delta that was missing; what was said already counts
        where the server has something else in the end."""
        said = self._so_far(family, at)
        if not value.startswith(said):
            return said
        self._append(family, at, value[len(said) :])
        return value

    def _open_part(self, family: str, at: int) -> None:
        """A text's part, if the server has not begun it."""
        if family == "response.reasoning_summary_text":
            key, kind = ("response.reasoning_summary_part", at), "summary_text"
        elif family in ("response.output_text", "response.refusal", "response.reasoning_text"):
            key, kind = ("response.content_part", at), family.removeprefix("response.")
        else:
            return
        if key not in self._parts:
            part: dict[str, Any] = {"type": kind, _TEXTS[family][2]: ""}
            if kind == "output_text":
                part |= {"annotations": [], "logprobs": []}
            self._say_part(key, part, "added")

    def _say_part(self, key: tuple[str, int], part: dict[str, Any], step: str) -> None:
        self._parts[key] = step
        family, at = key
        if family == "response.content_part":
            make: Any = ContentPartAdded if step == "added" else ContentPartDone
        else:
            make = SummaryPartAdded if step == "added" else SummaryPartDone
        self.out.append(make(-1, "", self.index, at, part))

    def _say(self, family: str, step: str, **fields: str) -> None:
        """An event of a call's text."""
        if family == _ARGUMENTS:
            make = ArgumentsDelta if step == "delta" else ArgumentsDone
            self.out.append(make(-1, "", self.index, *fields.values()))
            return
        name = f"{family}.{step}"
        members = {key: Raw(json.encode(value)) for key, value in fields.items()}
        members = {"type": Raw(json.encode(name)), "item_id": Raw(b'""'), **members}
        self.out.append(PassedEvent(-1, "", self.index, name, members))

    # --- what there is so far

    def _text(self, family: str, at: int) -> _Text:
        return self._texts.setdefault((family, at), _Text())

    def _so_far(self, family: str, at: int) -> str:
        text = self._texts.get((family, at))
        return "" if text is None else "".join(text.chunks)

    def _content(self) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for (family, at), text in sorted(self._texts.items(), key=lambda t: t[0][1]):
            kind, member = family.removeprefix("response."), _TEXTS[family][2]
            part: dict[str, Any] = {"type": kind, member: "".join(text.chunks)}
            if kind == "output_text":
                part |= {"annotations": [], "logprobs": []}
            while len(content) <= at:
                content.append(part)
        return content

    def _cut_reasoning(self, members: dict[str, Raw]) -> None:
        summary: list[dict[str, str]] = []
        content: list[dict[str, str]] = []
        for (family, _), text in sorted(self._texts.items(), key=lambda t: t[0][1]):
            value = "".join(text.chunks)
            if family == "response.reasoning_summary_text":
                summary.append({"type": "summary_text", "text": value})
            else:
                content.append({"type": "reasoning_text", "text": value})
        members["summary"] = Raw(json.encode(summary))
        if content:
            members["content"] = Raw(json.encode(content))


def zero_form(item: OpenItem) -> OpenItem:
    """An item as it was before anything was written, for one that is known whole only."""
    members = dict(item.members)
    if item.type == "message":
        members["content"] = Raw(b"[]")
    elif item.type == "reasoning":
        members["summary"] = Raw(b"[]")
        members.pop("content", None)
    elif item.type == "function_call":
        members["arguments"] = Raw(b'""')
    elif item.type == "custom_tool_call":
        members["input"] = Raw(b'""')
    elif "status" in members:
        members["status"] = Raw(b'"in_progress"')
    return OpenItem(item.type, members)


def _part_key(family: str, at: int) -> tuple[str, int]:
    return family, at


def _complete_parts(family: str, step: str, members: dict[str, Raw]) -> None:
    """The lists that readers expect, where a server leaves them out."""
    if family == "response.output_text" and step == "done":
        members.setdefault("logprobs", _LISTS["logprobs"])
    elif family == "response.content_part":
        parts = _read_parts(Raw(b"[%b]" % bytes(members.get("part", b"{}"))))
        if parts and _as_text(parts[0].get("type")) == "output_text":
            members["part"] = Raw(json.encode({**_LISTS, **parts[0]}))


def _as_text(raw: Raw | None) -> str:
    try:
        return "" if raw is None else _string(raw)
    except msgspec.DecodeError:
        return ""


def _read_parts(raw: Raw | None) -> list[dict[str, Raw]]:
    if raw is None or not json.opens_with(raw, b"["):
        return []
    try:
        return _parts(raw)
    except (msgspec.DecodeError, RecursionError):
        return []
