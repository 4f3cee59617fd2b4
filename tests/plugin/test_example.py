"""examples/weather_tool: built, installed, and called through a `bascule serve` of its own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from bascule.testing import ModelServer, Reply
from bascule.testing.script import Script
from bascule.upstreams.http1 import Http1Client
from tests.plugin.calling import call
from tests.plugin.installing import install
from tests.process import ROOT, Running, gateway
from tests.process import call as command
from tests.serving import LIMIT, Api
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
PACKAGE = ROOT / "examples/weather_tool"
FILES = ("pyproject.toml", "acme_weather.py")
WEATHER: Json = {"type": "acme:weather"}
CONFIG = """
[[upstreams]]
name = "mock"
base_url = "{url}"
profile = "openai"

[tools."acme:weather"]
{options}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package."""
    return install(PACKAGE, tmp_path_factory.mktemp("installed"))


@asynccontextmanager
async def served(
    home: Path, site: Path, script: Script, options: str = "", **env: str
) -> AsyncGenerator[tuple[Api, ModelServer, Running]]:
    """A client of the command, and the model server behind it."""
    async with ModelServer(script) as model:
        path = home / "bascule.toml"
        path.write_text(CONFIG.format(url=model.url, options=options))
        with gateway(home, "--config", str(path), env={"PYTHONPATH": str(site), **env}) as child:
            client = Http1Client()
            try:
                api = Api(child.url, cast("Any", None), client)
                api.limit = 3 * LIMIT
                yield api, model, child
            finally:
                await client.aclose()


def asks(city: str, id_: str = "call_1") -> Reply:
    return Reply(call("acme:weather", {"city": city}, id_))


@pytest.mark.requirement("tools:plugin:installed")
def test_it_is_short() -> None:
    lines = [line for name in FILES for line in (PACKAGE / name).read_text().splitlines()]
    assert len(lines) < 60


@pytest.mark.requirement("tools:plugin:installed")
async def test_it_is_called_streamed_and_not_and_continued(tmp_path: Path, site: Path) -> None:
    replies = [asks("Oslo"), Reply("Cold."), Reply("Yes."), asks("Paris"), Reply("Mild.")]
    async with served(tmp_path, site, replies) as (api, model, child):
        first = await api.create(tools=[{**WEATHER, "days": 2}], stream=True)
        second = await api.create(previous_response_id=first.response["id"], input="Sure?")
        third = await api.create(tools=[WEATHER], tool_choice=WEATHER)
        sent = [chat.json for chat in model.chats]
        log = child.stderr
    check_stream(first.frames)
    item = first.response["output"][0]
    assert (item["type"], item["status"]) == ("acme:weather_call", "completed")
    assert msgspec.json.decode(item["output"]) == {
        "city": "Oslo",
        "units": "celsius",
        "temperatures": [4, 2],
    }
    assert "acme:weather_call.completed" in first.types
    function = sent[0]["tools"][0]["function"]
    assert function["name"] == "acme__weather"
    assert function["description"] == "The temperature of the days to come, in a city."
    assert sent[1]["messages"][-1]["content"] == item["output"]
    assert second.response["status"] == "completed"
    assert sent[2]["messages"][: len(sent[1]["messages"])] == sent[1]["messages"]
    assert sent[3]["tool_choice"]["function"]["name"] == "acme__weather"
    assert [i["type"] for i in third.response["output"]] == ["acme:weather_call", "message"]
    assert "plugin 'weather' of acme-weather 1.0.0" in log


@pytest.mark.requirement("tools:plugin:installed", "tools:plugin:failure")
async def test_a_call_that_fails(tmp_path: Path, site: Path) -> None:
    async with served(tmp_path, site, [asks("Atlantis"), Reply("No.")]) as (api, model, _):
        answer = await api.create(tools=[WEATHER], stream=True)
        told = model.chats[1].json["messages"][-1]["content"]
    item = answer.response["output"][0]
    message = "There is no forecast for Atlantis."
    assert item["error"] == {"code": "unknown_city", "message": message}
    assert msgspec.json.decode(told) == {"error": message}
    assert "acme:weather_call.failed" in answer.types
    assert answer.response["status"] == "completed"


@pytest.mark.requirement("tools:options:typed", "tools:options:environment")
@pytest.mark.parametrize("place", ["file", "variable"])
async def test_its_own_options(tmp_path: Path, site: Path, place: str) -> None:
    in_file = 'units = "fahrenheit"' if place == "file" else ""
    env = {} if place == "file" else {"BASCULE__TOOLS__ACME:WEATHER__UNITS": "fahrenheit"}
    replies = [asks("Oslo"), Reply("Cold.")]
    async with served(tmp_path, site, replies, in_file, **env) as (api, _, _):
        answer = await api.create(tools=[WEATHER])
    output = msgspec.json.decode(answer.response["output"][0]["output"])
    assert output["units"] == "fahrenheit"
    assert output["temperatures"][0] == pytest.approx(39.2)


@pytest.mark.requirement("tools:plugin:declaration")
async def test_a_wrong_declaration(tmp_path: Path, site: Path) -> None:
    async with served(tmp_path, site, "Hi") as (api, _, _):
        answers = [
            await api.create(tools=[{**WEATHER, **wrong}])
            for wrong in ({"days": 4}, {"days": "2"}, {"city": "Oslo"})
        ]
    told = [(a.status, a.error["param"], a.error["code"]) for a in answers]
    assert told == [
        (400, "tools[0].days", "integer_above_max_value"),
        (400, "tools[0].days", "invalid_type"),
        (400, "tools[0].city", "unknown_parameter"),
    ]


@pytest.mark.requirement("tools:options:typed", "tools:options:unknown")
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ("unit = 1", "tools.acme:weather.unit: unknown key"),
        ('units = "kelvin"', "tools.acme:weather.units: Invalid enum value 'kelvin'"),
        ("timeout = 0", "tools.acme:weather.timeout: Expected `float` > 0.0"),
        ("timeout = inf", "tools.acme:weather.timeout: Expected `float` <= 86400.0"),
        ('parallel = "yes"', "tools.acme:weather.parallel: Expected `bool"),
    ],
)
def test_a_wrong_option(tmp_path: Path, site: Path, options: str, place: str) -> None:
    (tmp_path / "bascule.toml").write_text(CONFIG.format(url="http://127.0.0.1:9", options=options))
    done = command(tmp_path, "check-config", env={"PYTHONPATH": str(site)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"bascule: {place}")


@pytest.mark.requirement("tools:options:unknown")
def test_options_of_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "bascule.toml").write_text(CONFIG.format(url="http://127.0.0.1:9", options=""))
    done = command(tmp_path, "check-config")
    assert done.returncode == 2
    assert "tools.acme:weather: there is no tool type of this name; is its plugin" in done.stderr
