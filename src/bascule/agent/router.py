"""`ToolRouter`: items of the model's, as calls of the tools that are registered."""

import msgspec

from bascule.agent.calls import (
    FunctionPayload,
    McpPayload,
    ToolCall,
    ToolKind,
    UnifiedExecPayload,
    read_call,
)
from bascule.agent.registry import LocalRegistry


class ToolRouter:
    """Knows by the registry what a name means."""

    def __init__(self, registry: LocalRegistry) -> None:
        self._registry = registry

    def from_turn(self, item: bytes) -> ToolCall | None:
        """The call that an output item is, converted once; None for an item that is none of ours."""
        call = read_call(item)
        if call is None or not isinstance(call.payload, FunctionPayload):
            return call
        handler = self._registry.handler_of(call.name)
        kind = None if handler is None else handler.kind()
        text = call.payload.arguments
        if handler is not None and kind is ToolKind.MCP:
            server = handler.name.namespace or ""
            payload = McpPayload(text, server, handler.name.name)
            return msgspec.structs.replace(call, payload=payload)
        if kind is ToolKind.UNIFIED_EXEC:
            return msgspec.structs.replace(call, payload=UnifiedExecPayload(text))
        return call
