"""The port of a search engine: one function."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from bascule.services.search.domains import Domains


class SearchOptions(msgspec.Struct, frozen=True):
    """What is asked besides the query. An engine does with it what it can; `domains` hold in any case,
    since whoever asks filters the results too."""

    count: int = 5
    """Results wanted."""
    domains: Domains = Domains()
    country: str | None = None
    """Where the user is: two letters of ISO 3166-1, in upper case."""
    passages: int = 1000
    """Characters wanted of each result's text."""


class SearchResult(msgspec.Struct, frozen=True):
    """A page that an engine found. All of it is a stranger's text."""

    url: str
    title: str
    snippet: str
    """What the page says of the query."""
    published: str | None = None
    """As the engine has it."""


class SearchError(Exception):
    """A search that did not work. The message is for the model and the client."""

    loggable = True

    def __init__(self, code: str, message: str, retry_after: float | None = None) -> None:
        """`code` is `rate_limited`, `unauthorized`, `timeout`, `unreachable`, `bad_answer` or
        `engine_error`; `retry_after` is seconds, of a `rate_limited`."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after


class SearchEngine(ABC):
    """An engine. One file each, and a line in `engines`; all pass the suite of
    `tests/services/search/test_engines.py`."""

    @abstractmethod
    async def search(self, query: str, options: SearchOptions) -> Sequence[SearchResult]:
        """What the engine finds, best first; empty if that is nothing. Raises SearchError."""

    async def aclose(self) -> None:  # noqa: B027 -- not all hold something
        """Let go of what it holds."""
