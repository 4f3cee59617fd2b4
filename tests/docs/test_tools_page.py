"""Every request of the page on tools, as a client would paste it."""

import importlib.util
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from bascule.gateway.app import Gateway
from bascule.protocols import capabilities
from bascule.testing import Call, ModelServer, Reply, Request
from bascule.tools.all import all_handlers
from tests.process import ROOT
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TEXT = (ROOT / "docs" / "tools.md").read_text()
_SECTION = re.compile(r"^## (?P<name>.+)\n(?P<text>(?:(?!^## ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REQUESTS = [
    pytest.param(section["name"], msgspec.json.decode(block), id=f"{section['name']}-{i}")
    for section in _SECTION.finditer(TEXT)
    for i, block in enumerate(_BLOCK.findall(section["text"]))
]

ARGUMENTS: dict[str, Json] = {
    "get_weather": {"city": "Oslo"},
    "run_python": {"input": "print(3**3)"},
    "crm__find": {"id": 12},
    "date": {"input": "1969-07-20"},
    "shell": {"commands": ["ls"]},
    "local_shell": {"command": ["ls"]},
    "apply_patch": {"operation": {"type": "create_file", "path": "hello.txt", "diff": "+hello\n"}},
    "computer": {"action": {"type": "click", "button": "left", "x": 10, "y": 20}},
    "acme__weather": {"city": "Oslo"},
    "translate": {"text": "hello"},
}
"""What the model calls a function with, by its name there."""

OUTPUT: dict[str, list[str]] = {
    "function": ["function_call"],
    "custom": ["custom_tool_call"],
    "namespace": ["function_call"],
    "shell": ["shell_call"],
    "local_shell": ["local_shell_call"],
    "apply_patch": ["apply_patch_call"],
    "computer_use_preview": ["computer_call"],
    "mcp": ["mcp_list_tools", "message"],
    "acme:weather": ["acme:weather_call", "message"],
}
"""What comes back for a declared type; a message for what the model is not told of."""
MCP = "https://10.0.0.1/mcp"


def answers(request: Request) -> Reply:
    messages = request.json["messages"]
    tools = request.json.get("tools")
    if not tools or messages[-1]["role"] == "tool":
        return Reply("Done.")
    name = tools[0]["function"]["name"]
    return Reply(Call(name, ARGUMENTS[name]))


def _example() -> Any:
    """The class of the example plugin."""
    path = ROOT / "examples" / "weather_tool" / "acme_weather.py"
    spec = importlib.util.spec_from_file_location("acme_weather", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["acme_weather"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WeatherTool


@pytest.fixture(scope="module")
async def api(anyio_backend: str) -> AsyncIterator[Api]:
    def adjust(gateway: Gateway) -> None:
        gateway.engine.handlers = all_handlers(plugins=[_example()])

    async with ModelServer(answers) as model, serving(model.url, adjust=adjust) as api:
        yield api


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("section", "request_"), REQUESTS)
async def test_the_request_works(api: Api, section: str, request_: Json, stream: bool) -> None:
    # The server of the example is nowhere; nothing is looked up here.
    tools = [{**t, "server_url": MCP} if t["type"] == "mcp" else t for t in request_["tools"]]
    fields: Json = {**request_, "tools": tools, "model": "mock-model", "stream": stream}
    answer = await api.create(**fields)
    assert answer.status == 200, answer.body
    response = answer.response
    first = request_["tools"][0]["type"]
    assert [item["type"] for item in response["output"]] == OUTPUT.get(first, ["message"])
    assert response["status"] == "completed"
    if section == "Hosted tools":
        ignored = [f"tools[{i}]" for i in range(len(request_["tools"]))]
        assert answer.headers["x-bascule-ignored"].split(",") == ignored


def test_every_type_is_on_the_page() -> None:
    for name in capabilities.TOOLS:
        known = re.sub(r"_\d{4}_\d\d_\d\d$|_preview(_\d{4}_\d\d_\d\d)?$", "", name)
        if known != "any other":
            assert known in TEXT, name
