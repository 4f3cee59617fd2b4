"""The requests of docs/tool-search.md work as they stand."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, Request
from bascule.upstreams.profiles import PROFILES
from tests.process import ROOT
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

PAGE = (Path(ROOT) / "docs" / "tool-search.md").read_text()
BLOCKS: list[Json] = [
    msgspec.json.decode(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
]


def answers(request: Request) -> Reply:
    names = [tool["function"]["name"] for tool in request.json.get("tools", ())]
    if not names:
        return Reply("Yes.")
    name = names[-1]
    arguments = {"tool_search": {"goal": "x"}, "crm__query": {"input": "x"}}.get(name, {})
    return Reply(Call(name, arguments, id="call_1"))


async def test_the_requests_work() -> None:
    namespaced, search, found, additional, program = BLOCKS
    async with ModelServer(answers) as model, serving(model.url) as api:
        api.model = "bascule-demo"
        [call] = (await api.create(**namespaced)).response["output"]
        assert (call["type"], call["namespace"], call["name"]) == (
            "custom_tool_call",
            "crm",
            "query",
        )
        first = (await api.create(**search)).response
        [call] = first["output"]
        assert (call["type"], call["arguments"]) == ("tool_search_call", {"goal": "x"})
        found["previous_response_id"] = first["id"]
        found["input"][0]["call_id"] = call["call_id"]
        [call] = (await api.create(**found)).response["output"]
        assert (call["type"], call["name"]) == ("function_call", "refund")
        answer = (await api.create(**additional)).response
        assert answer["output"][0]["name"] == "sleep"
        assert [tool["name"] for tool in answer["tools"]] == ["sleep"]
        ended = await api.create(**program)
        assert ended.headers["x-bascule-ignored"].split(",") == [
            "tools[0]",
            "tools[1].allowed_callers",
        ]
    assert "The program's result:\n\n3" in [m.get("content") for m in model.chats[-1].messages]


def test_the_profiles_that_are_named() -> None:
    """Those that know the family, by Responses."""
    known = [
        name
        for name, profile in PROFILES.items()
        if not profile.flags_for("responses").flatten_tool_search_family
    ]
    named = re.search(r"Servers that know it: (.*?)\.", PAGE, re.DOTALL)
    assert named is not None
    assert re.findall(r"`(\w+)`", named[1]) == known
