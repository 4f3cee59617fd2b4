"""A gateway before a scripted model, and the declarations that the tests share."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from bascule.testing import ModelServer, Request
from bascule.testing.script import Player, Script
from tests.serving import Api, serving

Json = dict[str, Any]

CITY: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": CITY,
    "strict": True,
}
TIME: Json = {"type": "function", "name": "get_time", "parameters": CITY}
RUN: Json = {"type": "custom", "name": "run", "description": "Run code"}


class _Switch:
    """The script of the shared model server: that of the test which is running."""

    def __init__(self) -> None:
        self.player = Player("Hello!")

    def __call__(self, request: Request) -> Any:
        return self.player.next(request)


class Shared:
    """One gateway and one model server for all tests that need no configuration of their own."""

    current: ClassVar["Shared | None"] = None

    def __init__(self, api: Api, model: ModelServer, switch: _Switch) -> None:
        self.api = api
        self.model = model
        self.switch = switch

    def begin(self, script: Script) -> tuple[Api, ModelServer]:
        self.switch.player = Player(script)
        self.model.requests.clear()
        return self.api, self.model


@asynccontextmanager
async def shared_gateway() -> AsyncGenerator[None]:
    """While this is open, `gateway` without options starts nothing."""
    switch = _Switch()
    async with ModelServer(switch) as model, serving(model.url) as api:
        Shared.current = Shared(api, model, switch)
        yield
        Shared.current = None


@asynccontextmanager
async def gateway(
    script: Script = "Hello!", **options: Any
) -> AsyncGenerator[tuple[Api, ModelServer]]:
    """The gateway's client, and the model server with its log of this test's requests."""
    if Shared.current is not None and not options:
        yield Shared.current.begin(script)
        return
    async with ModelServer(script) as model, serving(model.url, **options) as api:
        yield api, model


def output_of(call: Json, output: Any = "done") -> Json:
    """The output that a client sends for a call."""
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output}


def text_of(response: Json) -> str:
    return "".join(
        part.get("text", "")
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )
