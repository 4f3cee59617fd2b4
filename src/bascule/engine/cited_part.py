"""One text part of a message: its deltas without markers, and its annotations."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.engine.marked_text import MarkedText
from bascule.engine.token_places import TokenPlaces
from bascule.protocols import json
from bascule.protocols.responses.events import (
    AnnotationAdded,
    OutputTextDelta,
    PassedEvent,
    RoundEvent,
)
from bascule.toolkit.citations import Citations

ServersAnnotation = AnnotationAdded | PassedEvent
"""An event with an annotation of the model's own server."""

_PLACES: Final = ("start_index", "end_index")
_object = json.decoder(dict[str, Any])


class CitedPart:
    """As far as the part has come; whoever feeds it takes what it appends to `out`."""

    __slots__ = (
        *("_annotations", "_citations", "_finished", "_raw", "_servers", "_tokens", "_waiting"),
        *("at", "index", "is_plain", "marked", "out", "say", "unknown"),
    )

    def __init__(self, citations: Citations, index: int, at: int) -> None:
        """`at` is the part's place in the item, `index` the item's at the server."""
        self._citations = citations
        self.index = index
        self.at = at
        self._annotations: list[Any] = []
        """Those that the client has been told of."""
        self._servers = 0
        self._waiting: list[ServersAnnotation] = []
        """With places that are not sure yet."""
        self._tokens: TokenPlaces | None = None
        self._raw = ""
        self._finished = False
        self.unknown = 0
        """Numbers of markers that name no source."""
        self.marked = MarkedText()
        self.say = self.marked.say
        self.is_plain = True
        """Whether `say` may take what has no mark of a marker in it."""
        self.out: list[RoundEvent] = []

    def delta(self, event: OutputTextDelta) -> OutputTextDelta | None:
        """The event with the text that is sure; None if there is none."""
        said = event.delta
        event.delta = self.marked.feed(said)
        if event.logprobs or self._tokens is not None:
            self._note(event, said)
        if self.marked.cited:
            self._cite()
        if self._waiting:
            self._place()
        self.is_plain = not self.marked.busy and self._tokens is None and not self._waiting
        return event if event.delta else None

    def _note(self, event: OutputTextDelta, said: str) -> None:
        """Log probabilities go with the text, once it is sure."""
        if self._tokens is None:
            self._tokens = TokenPlaces(self.marked.received - len(said))
        self._tokens.add(said, event.logprobs)
        event.logprobs = ()
        if event.delta:
            event.logprobs = self._tokens.take(self.marked.marks, self.marked.held)

    def annotation(self, event: ServersAnnotation) -> None:
        """One of the server's own."""
        self._servers += 1
        self._waiting.append(event)
        self._place()
        self.is_plain = self.is_plain and not self._waiting

    def finish(self, text: str) -> bool:
        """The text is whole; `text` as the model wrote it. Whether it had markers."""
        if self._finished:
            return bool(self.marked.marks)
        self._finished = True
        self._raw = text
        rest = self.marked.finish()
        if rest:
            event = OutputTextDelta(-1, "", self.index, self.at, rest)
            if self._tokens is not None:
                event.logprobs = self._tokens.take(self.marked.marks)
            self.out.append(event)
        self._cite()
        self._place()
        return bool(self.marked.marks)

    def _cite(self) -> None:
        for key, start, end in self.marked.cited:
            annotation = self._citations.annotation(key, start, end)
            if annotation is None:
                self.unknown += 1
                continue
            place = len(self._annotations)
            self._annotations.append(annotation)
            self.out.append(AnnotationAdded(-1, "", self.index, self.at, place, annotation))
        self.marked.cited.clear()

    def _place(self) -> None:
        """Say the server's annotations whose text is sure."""
        while self._waiting:
            event = self._waiting[0]
            annotation = _annotation(event)
            places = self._places(annotation)
            if None in places.values():
                return
            del self._waiting[0]
            moved, place = _moved(annotation, places), len(self._annotations)
            if isinstance(event, PassedEvent):
                event.members["annotation_index"] = Raw(json.encode(place))
                event.members["annotation"] = Raw(json.encode(moved))
            else:
                event.annotation_index, event.annotation = place, moved
            self._annotations.append(moved)
            self.out.append(event)

    def _places(self, annotation: Any) -> dict[str, int | None]:
        """Those of an annotation that changed, in the client's text; None while one is not sure."""
        members = _members(annotation)
        places: dict[str, int | None] = {}
        for name in _PLACES:
            raw = members.get(name)
            if isinstance(raw, int) and raw >= 0:
                place = self.marked.place(raw)
                if place is None and self._finished:
                    place = len(self.marked.text)
                if place != raw:
                    places[name] = place
        return places

    # --- when it is whole

    @property
    def text(self) -> str:
        return self.marked.text

    def annotations(self, servers: Sequence[Any]) -> list[Any]:
        """All of them; of the server's some may stand in the finished part only."""
        more = servers[self._servers :]
        return [*self._annotations, *(_moved(one, self._places(one)) for one in more)]

    def logprobs(self, tokens: Sequence[Any]) -> list[Any]:
        """What is left of all of the part's."""
        places = self._tokens or TokenPlaces()
        return places.final(self._raw, tokens, self.marked.marks)


def _annotation(event: ServersAnnotation) -> Any:
    if isinstance(event, PassedEvent):
        return event.members.get("annotation", Raw(b"null"))
    return event.annotation


def _members(annotation: Any) -> dict[str, Any]:
    if not isinstance(annotation, Raw):
        return json.as_object(annotation) or {}
    try:
        return _object(annotation)
    except (msgspec.DecodeError, RecursionError):
        return {}  # whatever it is, it has no place in the text


def _moved(annotation: Any, places: dict[str, int | None]) -> Any:
    return {**_members(annotation), **places} if places else annotation
