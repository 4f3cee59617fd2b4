"""A gateway with the tools of `some_tools`, and what its clients see of their calls."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from bascule.testing import Call
from tests.serving import Api, serving

Json = dict[str, Any]

MODULE = "tests.plugin.some_tools"
CALLED: Json = {
    "type": "acme:add_call",
    "id": "ext_1",
    "status": "completed",
    "arguments": '{"a":2,"b":3}',
    "output": "5",
    "error": None,
}
"""An item of a call, as a client sends it back."""


def with_tools(upstream: str, **options: Any) -> AbstractAsyncContextManager[Api]:
    """`serving`, with the module in `[tools]`."""
    tools = {"modules": [MODULE], **options.pop("tools", {})}
    return serving(upstream, tools=tools, **options)


def call(type_: str, arguments: Json | str, id_: str = "call_1") -> Call:
    """What a model writes to call a tool."""
    return Call(type_.replace(":", "__"), arguments, id=id_)


def declared(*types: str) -> list[Json]:
    return [{"type": type_} for type_ in types]
