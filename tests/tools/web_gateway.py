"""A gateway with a search engine and some pages of the web, all on loopback."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bascule.testing import Call, ModelServer, Reply, Step, Text
from tests.services.search.fakes import Fake, Hit, SearxngFake, running
from tests.services.test_fetch import Site, site
from tests.serving import Answer, Api, serving
from tests.stream_rules import check_stream

Json = dict[str, Any]
Said = Call | Sequence[Step] | str
"""A round of the model's: a call, several things, or a text."""

WEB: Json = {"type": "web_search"}
HITS = (
    Hit("https://example.org/bridges", "Bridges of Cork", "The oldest is of stone.", "2026-01-02"),
    Hit("https://example.net/lee", "The river Lee", "It has two channels."),
)
EVENTS = [
    "output_item.added",
    "web_search_call.in_progress",
    "web_search_call.searching",
    "web_search_call.completed",
    "output_item.done",
]
INCLUDE = ["web_search_call.action.sources", "web_search_call.results"]


@dataclass
class Web:
    """What a test has in hand."""

    api: Api
    model: ModelServer
    engine: Fake
    site: Site
    replies: list[Reply]

    def say(self, *steps: Said) -> None:
        """What the model says in the rounds to come, instead of anything said before."""
        self.replies[:] = map(_reply, steps)

    async def ask(self, *, stream: bool = False, **fields: Any) -> Answer:
        """A turn with `web_search` declared, checked by the rules of streams."""
        fields.setdefault("tools", [WEB])
        answer = await self.api.create(stream=stream, **fields)
        assert answer.status == 200, answer.body
        if stream:
            check_stream(answer.frames)
        return answer

    def result(self, at: int = -1) -> str:
        """What the model read as a tool's result, of its last request."""
        results = [m["content"] for m in self.model.chats[-1].messages if m["role"] == "tool"]
        return results[at]


def searched(id_: str = "call_1", name: str = "web_search", **arguments: Any) -> Call:
    """A call as the model writes it."""
    return Call(name, arguments, id=id_)


def calls(answer: Answer) -> list[Json]:
    return [i for i in answer.response["output"] if i["type"] == "web_search_call"]


def _reply(said: Said) -> Reply:
    if isinstance(said, str):
        return Reply(Text(said, chunks=4))
    return Reply(said) if isinstance(said, Call) else Reply(*said)


@asynccontextmanager
async def web(
    *steps: Said, engine: Fake | None = None, sections: Json | None = None, **options: Any
) -> AsyncGenerator[Web]:
    """`options` are of `[tools.web_search]`, `sections` of the whole configuration."""
    replies = list(map(_reply, steps))
    async with running(engine or SearxngFake(*HITS)) as fake, site() as pages:
        own = {"engine": fake.kind, "base_url": fake.url, "allow_hosts": ["127.0.0.1"], **options}
        given = dict(sections or {})
        tools = {**given.pop("tools", {}), "web_search": own}
        async with (
            ModelServer(lambda _: replies.pop(0)) as model,
            serving(model.url, tools=tools, **given) as api,
        ):
            yield Web(api, model, fake, pages, replies)
