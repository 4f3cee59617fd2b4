"""The tool types of the gateway, a line each."""

from typing import Any

from bascule.toolkit.handler import Handlers, ToolHandler
from bascule.tools.custom import CustomHandler
from bascule.tools.function import FunctionHandler

HANDLERS: list[ToolHandler[Any]] = [
    FunctionHandler(),
    CustomHandler(),
]


def all_handlers() -> Handlers:
    return Handlers(HANDLERS)
