"""A tool that the server runs by itself: it is declared here, and never called."""

from typing import ClassVar

from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.handler import LocalHandler, ToolFault, ToolInvocation, ToolSpec


class ServerTool(LocalHandler):
    takes: ClassVar[tuple[type, ...]] = ()

    def __init__(self, type_: str) -> None:
        self.name = ToolName(None, type_)

    def spec(self) -> ToolSpec:
        return ToolSpec({"type": self.name.name})

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        raise ToolFault(f"{self.name} is the server's own tool")
