"""What tools of others are made of; docs/plugins.md says how, and what may be relied upon.

`tool` makes one of a Python function. `GatewayTool` is the base class of those that need options, a
declaration of their own or something to close. Both come to the gateway through the entry point group
`bascule.tools`, or as modules named in the configuration.
"""

from bascule.config import Secret
from bascule.plugin.decorator import tool
from bascule.plugin.gateway_tool import Declaration, GatewayTool, ToolError
from bascule.protocols.responses.items import Part
from bascule.toolkit.executor import ExecutionContext
from bascule.toolkit.options import ToolOptions

__all__ = [
    "Declaration",
    "ExecutionContext",
    "GatewayTool",
    "Part",
    "Secret",
    "ToolError",
    "ToolOptions",
    "tool",
]
