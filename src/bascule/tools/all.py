"""The tool types of the gateway, a line each."""

from collections.abc import Sequence
from typing import Any

from bascule.config import Config
from bascule.toolkit.handler import Handlers, ToolHandler
from bascule.toolkit.options import DEFAULTS, make_handlers
from bascule.tools.additional_tools import AdditionalToolsHandler
from bascule.tools.agent_message import AgentMessageHandler
from bascule.tools.alias import alias_handlers
from bascule.tools.apply_patch import ApplyPatchHandler
from bascule.tools.code_interpreter import CodeInterpreterHandler
from bascule.tools.computer import ComputerHandler
from bascule.tools.custom import CustomHandler
from bascule.tools.file_search import FileSearchHandler
from bascule.tools.function import FunctionHandler
from bascule.tools.image_generation import ImageGenerationHandler
from bascule.tools.local_shell import LocalShellHandler
from bascule.tools.mcp import McpHandler
from bascule.tools.namespace import NamespaceHandler
from bascule.tools.programmatic_tool_calling import ProgrammaticToolCallingHandler
from bascule.tools.refused_items import RefusedItems
from bascule.tools.shell import ShellHandler
from bascule.tools.tool_search import ToolSearchHandler
from bascule.tools.web_search import WebSearchHandler

HANDLERS: list[ToolHandler[Any] | type[ToolHandler[Any]]] = [
    FunctionHandler(),
    CustomHandler(),
    NamespaceHandler([FunctionHandler(), CustomHandler()]),
    WebSearchHandler,
    FileSearchHandler(),
    CodeInterpreterHandler(),
    ImageGenerationHandler(),
    McpHandler,
    ShellHandler(),
    ApplyPatchHandler(),
    LocalShellHandler(),
    ComputerHandler(),
    ToolSearchHandler(),
    ProgrammaticToolCallingHandler(),
    AdditionalToolsHandler(),
    AgentMessageHandler(),
    RefusedItems(),
]
"""A type with options is given as its class."""


def all_handlers(
    config: Config = DEFAULTS,
    plugins: Sequence[ToolHandler[Any] | type[ToolHandler[Any]]] = (),
) -> Handlers:
    """The types above and those of plugins, as the configuration says. Raises ConfigError."""
    handlers = make_handlers([*HANDLERS, *plugins], config.tools.by_type, config)
    return Handlers(handlers, alias_handlers(config.tools.aliases, handlers))
