"""What the model may cite: the sources of a chain of turns, by number.

An executor gives its sources to `ExecutionContext.citations` and shows them to the model with
`markers.shown` and `markers.INSTRUCTION`; from then on the engine makes annotations of the markers.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_SOURCES: Final = 1000
MAX_CHARACTERS: Final = 200_000
"""Of all names and titles together. Beyond either limit the sources given longest ago go."""
MAX_URL: Final = 4096
"""Characters."""
MAX_TITLE: Final = 300
"""Characters; longer ones are cut."""


class Source(msgspec.Struct):
    """What a number stands for."""

    name: str
    """What makes it the same source when it is given again: its URL."""
    annotation: dict[str, Any]
    """An annotation without its place in the text."""


class Citations(msgspec.Struct, omit_defaults=True):
    """The sources of a chain, stored with each of its turns.

    A number never changes its source and is never given twice, not even where the source has gone:
    the model may still write it. Not for use by several threads at once.
    """

    sources: dict[int, Source] = {}
    """Those given last come last."""
    last: int = 0
    """The highest number that was given."""
    size: int = 0
    """Characters of names and titles."""

    def cite(self, url: str, title: str = "") -> int | None:
        """The number of a web page, which it keeps; one without a title takes that of a later call.

        None for what cannot be cited: an address that is no `http` one, or longer than `MAX_URL`.
        """
        if len(url) > MAX_URL or not url.lower().startswith(("http://", "https://")):
            return None
        title = title.strip()[:MAX_TITLE]
        key = next((key for key, known in self.sources.items() if known.name == url), None)
        if key is not None:
            source = self._drop(key)
            title = source.annotation["title"] or title
        else:
            key = self.last = self.last + 1
        self._keep(key, Source(url, {"type": "url_citation", "url": url, "title": title}))
        return key

    def annotation(self, key: int, start: int, end: int) -> Mapping[str, Any] | None:
        """The annotation of `text[start:end]`; None for a number that names no source."""
        source = self.sources.get(key)
        if source is None:
            return None
        return {**source.annotation, "start_index": start, "end_index": end}

    def _keep(self, key: int, source: Source) -> None:
        self.sources[key] = source
        self.size += _size(source)
        while len(self.sources) > MAX_SOURCES or self.size > MAX_CHARACTERS:
            self._drop(next(iter(self.sources)))

    def _drop(self, key: int) -> Source:
        source = self.sources.pop(key)
        self.size -= _size(source)
        return source


def _size(source: Source) -> int:
    return len(source.name) + len(source.annotation.get("title", ""))
