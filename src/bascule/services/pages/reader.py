"""What a web page says, by its address."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from bascule.services.egress import EgressError
from bascule.services.fetch import Fetcher
from bascule.services.pages.extractor import Extractor
from bascule.services.pages.messages import Task

TYPES: Final = (
    *("text/*", "application/xhtml+xml", "application/xml", "application/json"),
    *("application/ld+json", "application/rss+xml", "application/atom+xml", "application/pdf"),
)
"""Media types that can be read."""
_KEPT_SECONDS: Final = 300.0
_KEPT_CHARACTERS: Final = 8_000_000


class Document(msgspec.Struct, frozen=True):
    """A page that was read."""

    url: str
    """Where it was found, after redirects."""
    title: str
    text: str


class PageReader:
    """Reads pages, each but once in some minutes: a model that opens one looks for words in it next.
    Nobody's credentials are used, so what was read is the same for everybody."""

    def __init__(
        self,
        fetcher: Fetcher,
        extractor: Extractor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._extractor = extractor
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Document]] = OrderedDict()
        self._size = 0

    async def read(self, url: str) -> Document:
        """Raises EgressError as `Fetcher.get` does, or with the code `unreadable`."""
        url = url.strip().partition("#")[0]
        found = self._kept.get(url)
        if found is not None and found[0] > self._clock():
            return found[1]
        page = await self._fetcher.get(url, TYPES)
        task = Task(page.url, page.content_type, page.charset, page.body)
        extracted = await self._extractor.extract(task)
        if extracted.fault:
            raise EgressError("unreadable", extracted.fault)
        document = Document(page.url, extracted.title, extracted.text)
        self._keep(url, document)
        return document

    async def aclose(self) -> None:
        await self._extractor.aclose()
        await self._fetcher.aclose()

    def _keep(self, url: str, document: Document) -> None:
        self._drop(url)
        self._kept[url] = (self._clock() + _KEPT_SECONDS, document)
        self._size += len(document.text)
        while self._size > _KEPT_CHARACTERS:
            self._drop(next(iter(self._kept)))

    def _drop(self, url: str) -> None:
        found = self._kept.pop(url, None)
        if found is not None:
            self._size -= len(found[1].text)
