"""Search engines on loopback, each answering in the shape of the real one."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from html import escape
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

Json = dict[str, Any]


class Hit(NamedTuple):
    """A result as the web has it."""

    url: str
    title: str
    snippet: str
    published: str | None = None


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: Json

    @property
    def query(self) -> str:
        return self.params.get("q") or self.body.get("query", "")


class Fake:
    """An engine that finds `hits`, or gives whatever `answer` is set to: status, headers and body."""

    kind: str
    error: bytes
    """A body of status 200 that is an error."""

    def __init__(self, *hits: Hit) -> None:
        self.url = ""
        self.hits: Sequence[Hit] = hits
        self.by_query: dict[str, Sequence[Hit]] = {}
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        """Given one after the other before there are results again; the last one stays."""
        self.asked: list[Asked] = []
        self.silent = False

    content_type = "application/json"

    def page(self, asked: Asked) -> bytes:
        hits = next((h for q, h in self.by_query.items() if asked.query.startswith(q)), self.hits)
        return msgspec.json.encode(self.body(asked, hits))

    def body(self, asked: Asked, hits: Sequence[Hit]) -> Any:
        raise NotImplementedError

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = await _read(reader)
                self.asked.append(asked)
                if self.silent:
                    await reader.read()
                    return
                await self._respond(asked, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            return
        finally:
            writer.close()

    async def _respond(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        status, headers, body = 200, {"content-type": self.content_type}, b""
        if self.answers:
            status, more, body = self.answers.pop(0)
            headers.update(more)
        else:
            body = self.page(asked)
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
    size = int(headers.get("content-length", "0"))
    body = await reader.readexactly(size) if size else b""
    url = urlsplit(target)
    params = {name: values[0] for name, values in parse_qs(url.query).items()}
    read: Json = {}
    if headers.get("content-type", "").startswith("application/json"):
        read = msgspec.json.decode(body)
    elif body:
        params |= {name: values[0] for name, values in parse_qs(body.decode()).items()}
    return Asked(method, url.path, params, headers, read)


class SearxngFake(Fake):
    kind = "searxng"
    error = b'{"query": "", "results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["bing", "x"]]}'

    def body(self, asked: Asked, hits: Sequence[Hit]) -> Any:
        return {
            "query": asked.query,
            "number_of_results": len(hits),
            "results": [
                {
                    "url": hit.url,
                    "title": hit.title,
                    "content": hit.snippet,
                    "publishedDate": hit.published,
                    "thumbnail": None,
                    "engine": "duckduckgo",
                    "template": "default.html",
                    "parsed_url": ["https", "example.org", "/", "", "", ""],
                    "img_src": "",
                    "priority": "",
                    "engines": ["duckduckgo"],
                    "positions": [n],
                    "score": 1.0 / n,
                    "category": "general",
                }
                for n, hit in enumerate(hits, 1)
            ],
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [],
        }


class BraveFake(Fake):
    kind = "brave"
    error = msgspec.json.encode(
        {
            "type": "ErrorResponse",
            "error": {
                "id": "1",
                "status": 422,
                "code": "VALIDATION",
                "detail": "Unable to validate",
            },
            "time": 1,
        }
    )

    def body(self, asked: Asked, hits: Sequence[Hit]) -> Any:
        shown = hits[: int(asked.params["count"])]
        results = [
            {
                "title": hit.title,
                "url": hit.url,
                "is_source_local": False,
                "is_source_both": False,
                "description": f"<strong>{escape(hit.snippet)}</strong>",
                "page_age": hit.published,
                "profile": {"name": "x", "url": hit.url, "long_name": "x", "img": "x"},
                "language": "en",
                "family_friendly": True,
                "type": "search_result",
                "subtype": "generic",
                "meta_url": {"scheme": "https", "hostname": "x", "path": "/"},
            }
            for hit in shown
        ]
        query = {"original": asked.query, "more_results_available": False}
        if not hits:
            return {"query": query, "type": "search"}
        web = {"type": "search", "results": results, "family_friendly": True}
        return {"query": query, "mixed": {"type": "mixed"}, "type": "search", "web": web}


class TavilyFake(Fake):
    kind = "tavily"
    error = b'{"detail": {"error": "Query is too long."}}'

    def body(self, asked: Asked, hits: Sequence[Hit]) -> Any:
        return {
            "query": asked.query,
            "follow_up_questions": None,
            "answer": None,
            "images": [],
            "results": [
                {
                    "url": hit.url,
                    "title": hit.title,
                    "content": hit.snippet,
                    "score": 0.9,
                    "raw_content": None,
                    **({"published_date": hit.published} if hit.published else {}),
                }
                for hit in hits[: asked.body["max_results"]]
            ],
            "response_time": 1.1,
            "request_id": "x",
        }


class ExaFake(Fake):
    kind = "exa"
    error = b'{"requestId": "x", "error": "Invalid request body", "tag": "INVALID_REQUEST_BODY"}'

    def body(self, asked: Asked, hits: Sequence[Hit]) -> Any:
        return {
            "requestId": "x",
            "resolvedSearchType": "neural",
            "results": [
                {
                    "id": hit.url,
                    "title": hit.title,
                    "url": hit.url,
                    "publishedDate": hit.published,
                    "author": "",
                    "text": hit.snippet,
                }
                for hit in hits[: asked.body["numResults"]]
            ],
            "costDollars": {"total": 0.005},
        }


class DdgsFake(Fake):
    kind = "ddgs"
    content_type = "text/html; charset=UTF-8"
    error = b"<html><body><div class='anomaly-modal__title'>Unfortunately, bots use it too.</div></body></html>"

    def page(self, asked: Asked) -> bytes:
        hits = next((h for q, h in self.by_query.items() if asked.query.startswith(q)), self.hits)
        found = "".join(
            f"""<div class="result results_links results_links_deep web-result">
                <div class="links_main links_deep result__body">
                <h2 class="result__title"><a rel="nofollow" class="result__a"
                href="{escape(hit.url)}">{escape(hit.title)}</a></h2>
                <a class="result__snippet" href="{escape(hit.url)}">{escape(hit.snippet)}</a>
                </div></div>"""
            for hit in hits
        )
        found = found or '<div class="no-results">No results found for your query.</div>'
        return f"<html><body><div id='links' class='results'>{found}</div></body></html>".encode()


FAKES: Final = (SearxngFake, BraveFake, TavilyFake, ExaFake, DdgsFake)


@asynccontextmanager
async def running(fake: Fake) -> AsyncGenerator[Fake]:
    """The fake at work on loopback."""
    server = await asyncio.start_server(fake.meet, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield fake
        server.close()
