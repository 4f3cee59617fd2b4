"""The client's side of the bridge: an agent that runs tools, for any endpoint of the Responses API.

`from bascule.agent import Agent, tool`; docs/agent.md says how.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bascule.agent.agent import Agent, Result
    from bascule.agent.calls import ToolName, ToolOutput
    from bascule.agent.handler import LocalHandler, ToolFault
    from bascule.agent.own import tool
    from bascule.agent.settings import ToolsConfig

__all__ = [
    "Agent",
    "LocalHandler",
    "Result",
    "ToolFault",
    "ToolName",
    "ToolOutput",
    "ToolsConfig",
    "tool",
]

_PLACES = {
    "Agent": "agent",
    "LocalHandler": "handler",
    "Result": "agent",
    "ToolFault": "handler",
    "ToolName": "calls",
    "ToolOutput": "calls",
    "ToolsConfig": "settings",
    "tool": "own",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a part of the package needs not all of it."""
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
