"""What a model may do with `web_search`, and how it says so."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from bascule.protocols import json
from bascule.tools.items_only import given

MAX_QUERIES: Final = 5
_MAX_QUERY: Final = 1000
_MAX_PATTERN: Final = 200
"""Characters."""


class Search(msgspec.Struct, frozen=True, tag_field="type", tag="search"):
    """One search or several. `left_out` are those beyond `MAX_QUERIES`."""

    queries: tuple[str, ...]
    left_out: int = 0
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()


class OpenPage(msgspec.Struct, frozen=True, tag_field="type", tag="open_page"):
    """The text of a page, from the character `start` on."""

    url: str
    start: int = 0


class FindInPage(msgspec.Struct, frozen=True, tag_field="type", tag="find_in_page"):
    url: str
    pattern: str


Action = Search | OpenPage | FindInPage


class _Written(msgspec.Struct):
    """The arguments, which models do not write as exactly as they should."""

    action: str | None = None
    query: str | None = None
    queries: list[str] | str | None = None
    url: str | None = None
    pattern: str | None = None
    start: Annotated[int, Meta(ge=0)] | None = None
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None


_written = json.decoder(_Written)


def read(arguments: str) -> Action | str:
    """The action that a model means; else what is wrong, in words for it."""
    try:
        said = _written((arguments or "{}").encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as e:
        return f"The arguments cannot be read: {e}."
    url, pattern = _address(said.url or ""), (said.pattern or "").strip()
    queries = _queries(said)
    kind = said.action or ("find_in_page" if pattern and url else "open_page" if url else "search")
    if kind == "search":
        if not queries:
            return "Say what to search for: 'query' is missing."
        if any(len(query) > _MAX_QUERY for query in queries):
            return f"A search of more than {_MAX_QUERY} characters: use a few words."
        return Search(
            queries[:MAX_QUERIES],
            max(0, len(queries) - MAX_QUERIES),
            tuple(said.allowed_domains or ()),
            tuple(said.blocked_domains or ()),
        )
    if kind not in ("open_page", "find_in_page"):
        return f"There is no action '{kind}': only 'search', 'open_page' and 'find_in_page'."
    if not url:
        return f"Say which page: 'url' is missing, which {kind} needs."
    if kind == "open_page":
        return OpenPage(url, said.start or 0)
    if not pattern:
        return "Say which words to find: 'pattern' is missing, which find_in_page needs."
    if len(pattern) > _MAX_PATTERN:
        return f"'pattern' has more than {_MAX_PATTERN} characters: give a few words."
    return FindInPage(url, pattern)


def _address(text: str) -> str:
    """Models leave the scheme out."""
    text = text.strip()
    return f"https://{text}" if text and "://" not in text else text


def _queries(said: _Written) -> tuple[str, ...]:
    """Each once, in the order in which they stand."""
    more = [said.queries] if isinstance(said.queries, str) else said.queries or []
    texts = [" ".join(text.split()) for text in (said.query or "", *more)]
    return tuple(dict.fromkeys(text for text in texts if text))


def shown(
    action: Action, sources: Sequence[str] | None = None, url: str | None = None
) -> dict[str, Any]:
    """The action of a `web_search_call`. `sources` are the URLs that a search found; `url` is where a
    page was found in the end."""
    if isinstance(action, Search):
        found = None if sources is None else [{"type": "url", "url": source} for source in sources]
        return given(
            type="search", query=action.queries[0], queries=list(action.queries), sources=found
        )
    pattern = action.pattern if isinstance(action, FindInPage) else None
    kind = "open_page" if pattern is None else "find_in_page"
    return given(type=kind, url=url or action.url, pattern=pattern)


_QUERY: Final = {"type": "string", "description": "What to search the web for."}
_QUERIES: Final = {
    "type": "array",
    "items": {"type": "string"},
    "description": f"Instead of query: up to {MAX_QUERIES} searches that are made at once.",
}


def schema(*, opens_pages: bool) -> Raw:
    """The parameters of the model's function. Whatever a model writes besides is passed over: it costs
    a round to tell it so."""
    properties: dict[str, Any] = {"query": _QUERY, "queries": _QUERIES}
    if opens_pages:
        properties = {"action": _ACTION, **properties, **_PAGES}
    return Raw(json.encode({"type": "object", "properties": properties}))


_ACTION: Final = {
    "type": "string",
    "enum": ["search", "open_page", "find_in_page"],
    "description": "search (the default) needs query; open_page needs url, and shows the page's text; "
    "find_in_page needs url and pattern.",
}
_PAGES: Final = {
    "url": {"type": "string", "description": "The address of the page to open."},
    "pattern": {"type": "string", "description": "Words to find on the page."},
    "start": {
        "type": "integer",
        "minimum": 0,
        "description": "With open_page: the character from which on a long page is shown.",
    },
}
