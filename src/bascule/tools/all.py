"""The tool types of the gateway, a line each."""

from typing import Any

from bascule.toolkit.handler import Handlers, ToolHandler
from bascule.tools.custom import CustomHandler
from bascule.tools.function import FunctionHandler
from bascule.tools.hosted import HostedHandler

HANDLERS: list[ToolHandler[Any]] = [
    FunctionHandler(),
    CustomHandler(),
    HostedHandler(),
]


def all_handlers() -> Handlers:
    return Handlers(HANDLERS)
