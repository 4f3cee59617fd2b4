"""`programmatic_tool_calling`: programs that the model writes, which call tools."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Raw

from bascule.protocols import capabilities
from bascule.toolkit.handler import Tool, ToolHandler


class ProgrammaticToolCallingHandler(ToolHandler[None]):
    """For servers that have a runtime for programs; it has no options."""

    types: ClassVar[frozenset[str]] = frozenset({"programmatic_tool_calling"})
    served: ClassVar[bool] = False

    def parse(self, declaration: Raw, param: str) -> None:
        row = capabilities.TOOLS["programmatic_tool_calling"]
        raise capabilities.refusal(row, f"{param}.type")

    def normalize(self, params: None) -> Sequence[Tool]:
        return ()
