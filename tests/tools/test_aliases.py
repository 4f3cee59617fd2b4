"""Functions of clients that an operator takes over."""

from typing import Any

import pytest

from bascule.config import ConfigError, convert
from bascule.tools.all import all_handlers
from tests.services.pages.samples import article
from tests.tools.web_gateway import calls, searched, web

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("web_search:alias:function")]

Json = dict[str, Any]

DOMAINS: Json = {"type": "array", "items": {"type": "string"}}
OWN: Json = {
    "type": "function",
    "name": "WebSearch",
    "description": "Search the web as this client does",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "allowed_domains": DOMAINS,
            "blocked_domains": DOMAINS,
        },
        "required": ["query"],
    },
}
FETCH: Json = {
    "type": "function",
    "name": "WebFetch",
    "parameters": {
        "type": "object",
        "properties": {"url": {"type": "string"}, "prompt": {"type": "string"}},
        "required": ["url"],
    },
}
ALIASES: Json = {"tools": {"aliases": {"WebSearch": "web_search", "WebFetch": "web_search"}}}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_function_that_was_taken_over(stream: bool) -> None:
    call = searched(name="WebSearch", query="a", allowed_domains=["example.net"])
    async with web(call, "x [cite:1]", sections=ALIASES) as made:
        answer = await made.ask(
            tools=[OWN],
            stream=stream,
            include=["web_search_call.action.sources"],
            tool_choice={"type": "function", "name": "WebSearch"},
        )
        [shown] = calls(answer)
        assert shown["action"]["sources"] == [{"type": "url", "url": "https://example.net/lee"}]
        assert made.engine.asked[0].query == "a site:example.net"
        # The model knows it as its client declared it, and the client reads its own declaration.
        [told] = made.model.chats[0].tools
        assert told["function"]["parameters"] == OWN["parameters"]
        assert told["function"]["description"] == OWN["description"]
        assert answer.response["tools"][0]["name"] == "WebSearch"
        assert answer.response["tools"][0]["type"] == "function"
        assert answer.response["output"][-1]["content"][0]["annotations"] != []


async def test_pages_by_a_function_that_was_taken_over() -> None:
    async with web(sections=ALIASES) as made:
        made.site.page("/a", article().encode())
        url = f"{made.site.url}/a"
        made.say(searched(name="WebFetch", url=url, prompt="What of it?"), "x")
        [shown] = calls(await made.ask(tools=[OWN, FETCH]))
        assert shown["action"] == {"type": "open_page", "url": url}


async def test_it_is_off_by_default() -> None:
    async with web(searched(name="WebSearch", query="a")) as made:
        answer = await made.ask(tools=[OWN])
        assert [item["type"] for item in answer.response["output"]] == ["function_call"]
        assert made.engine.asked == []


async def test_other_functions_stay_the_clients() -> None:
    async with web(searched(name="Other", query="a"), sections=ALIASES) as made:
        answer = await made.ask(tools=[OWN, {**OWN, "name": "Other"}])
        [item] = answer.response["output"]
        assert (item["type"], item["name"]) == ("function_call", "Other")


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ({"A": "web_search"}, "tools.aliases.A: nothing here runs tools of the type 'web_search'"),
        ({"A": "file_search"}, "tools.aliases.A: 'file_search' cannot run it"),
        ({"A": "function"}, "tools.aliases.A: 'function' cannot run it"),
        ({"A": "mcp"}, "tools.aliases.A: 'mcp' cannot run it"),
        ({"A": "apply_patch"}, "tools.aliases.A: nothing here runs"),
        ({"A": "no_such"}, "tools.aliases.A: there is no tool type 'no_such'"),
    ],
)
def test_types_that_cannot_take_over(aliases: Json, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        all_handlers(convert({"tools": {"aliases": aliases}}, {}))


def test_an_alias_that_is_no_text() -> None:
    with pytest.raises(ConfigError, match=r"tools\.aliases"):
        convert({"tools": {"aliases": {"A": 1}}}, {})
