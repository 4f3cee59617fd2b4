"""Tools of each kind, as a client declares them and as a model calls them."""

from dataclasses import dataclass
from typing import Any, Final

from bascule.testing import Call
from tests.conformance.asking import RUN, WEATHER
from tests.engine.lookup_tool import TOOL

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One tool."""

    declaration: Json
    wire: str
    arguments: Json
    choice: Json
    shown: Json
    """Members of the item that the client sees of the call."""
    result: str
    """What the model is told of the call."""

    def call(self, **options: Any) -> Call:
        return Call(self.wire, self.arguments, **options)


KINDS: Final = {
    "function": Kind(
        WEATHER,
        "get_weather",
        {"city": "Oslo"},
        {"type": "function", "name": "get_weather"},
        {"type": "function_call", "name": "get_weather", "arguments": '{"city":"Oslo"}'},
        "from the client",
    ),
    "custom": Kind(
        RUN,
        "run",
        {"input": 'print("1\n")'},
        {"type": "custom", "name": "run"},
        {"type": "custom_tool_call", "name": "run", "input": 'print("1\n")'},
        "from the client",
    ),
    "namespaced": Kind(
        {"type": "namespace", "name": "notes", "description": "Notes", "tools": [WEATHER]},
        "notes__get_weather",
        {"city": "Oslo"},
        {"type": "function", "namespace": "notes", "name": "get_weather"},
        {
            "type": "function_call",
            "namespace": "notes",
            "name": "get_weather",
            "arguments": '{"city":"Oslo"}',
        },
        "from the client",
    ),
    "gateway": Kind(
        TOOL,
        "lookup",
        {"query": "x"},
        {"type": "lookup"},
        {"type": "lookup_call", "status": "completed", "query": '{"query":"x"}'},
        'found for {"query":"x"}',
    ),
}
