"""Which servers know the tool_search family, and what those are given that want more of it."""

from typing import Any

import pytest
from tests.engine.test_responses_upstream import message
from tests.serving import serving
from tests.tools.test_tool_search import additional, function, group

from bascule.config import ConfigError, convert
from bascule.testing import ModelServer, responded
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.profiles import PROFILES
from bascule.upstreams.routing import Router

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

NATIVE = {"openai", "codex", "copilot", "azure", "custom"}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.requirement("family:profiles")
def test_the_defaults(name: str) -> None:
    profile = PROFILES[name]
    assert profile.flags_for("responses").flatten_tool_search_family is (name not in NATIVE)
    assert profile.flags_for("chat").flatten_tool_search_family is True
    assert profile.flags.namespace_description is (name in ("azure", "copilot"))
    assert profile.flags.name_limit == (128 if name in ("anthropic", "claude_code") else 64)


@pytest.mark.parametrize("place", ["upstreams[0]", "models[0]"])
@pytest.mark.requirement("family:profiles")
def test_chat_cannot_know_the_family(place: str) -> None:
    off = {"flatten_tool_search_family": False}
    upstream: Json = {"name": "a", "base_url": "http://127.0.0.1:1"}
    model: Json = {"name": "m", "upstream": "a"}
    (upstream if place.startswith("up") else model)["flags"] = off
    config = convert({"upstreams": [upstream], "models": [model]}, {})
    with pytest.raises(ConfigError, match="flatten_tool_search_family: it cannot be off") as told:
        Router(config, Http1Client())
    assert str(told.value).startswith(place)


@pytest.mark.requirement("family:profiles")
@pytest.mark.parametrize("profile", ["azure", "openai"])
async def test_a_namespace_without_a_description(profile: str) -> None:
    bare, told = group("crm", function()), group("shop", function(), description="Wares.")
    upstream = {"protocol": "responses", "profile": profile}
    async with (
        ModelServer(responded(message("Hi.")), then="repeat") as model,
        serving(model.url, upstream_options=upstream) as api,
    ):
        for store in (True, False):
            items = [additional(bare, told), {"role": "user", "content": "Hi"}]
            answer = await api.create(tools=[bare, told], input=items, store=store)
            assert answer.status == 200
            if store:  # else it may be relayed
                assert answer.response["tools"][0]["description"] == ""
    filled = {**bare, "description": "Tools in the crm namespace."} if profile == "azure" else bare
    for chat in model.chats:
        assert chat.json["tools"] == [filled, told]
        assert chat.json["input"][0]["tools"] == [filled, told]


@pytest.mark.requirement("family:names:limit")
@pytest.mark.parametrize(("limit", "kept"), [(64, False), (128, True)])
async def test_how_long_a_name_may_be(limit: int, kept: bool) -> None:
    long = group("mcp__a_server_with_a_long_name", function("a_tool_whose_name_is_rather_long_to"))
    async with (
        ModelServer("Hi", then="repeat") as model,
        serving(model.url, upstream_options={"flags": {"name_limit": limit}}) as api,
    ):
        await api.create(tools=[long])
    [name] = [tool["function"]["name"] for tool in model.chats[0].tools]
    plain = f"{long['name']}__{long['tools'][0]['name']}"
    assert len(plain) == 67
    assert (name == plain) is kept
    assert len(name) <= limit


@pytest.mark.requirement("family:names:limit")
async def test_a_chain_that_moves_to_a_server_of_shorter_names() -> None:
    long = group("mcp__a_server_with_a_long_name", function("a_tool_whose_name_is_rather_long_to"))
    async with ModelServer("Hi", then="repeat") as model:
        upstreams = [
            {"name": name, "base_url": model.url, "models": [name], "flags": {"name_limit": limit}}
            for name, limit in (("wide", 128), ("narrow", 64))
        ]
        async with serving(model.url, upstreams=upstreams) as api:
            api.model = "wide"
            first = await api.create(tools=[long])
            api.model = "narrow"
            await api.create(tools=[long], previous_response_id=first.response["id"])
    wide, narrow = (chat.tools[0]["function"]["name"] for chat in model.chats)
    assert (len(wide), len(narrow) <= 64) == (67, True)
