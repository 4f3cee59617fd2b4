"""Hosted types that nothing here serves yet: a server that runs them itself takes them as they are, and
without one a request that declares them is refused."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Raw

from bascule.protocols.errors import invalid
from bascule.toolkit.handler import Tool, ToolHandler


class HostedHandler(ToolHandler[None]):
    """Refuses; the type's own handler takes its place once there is one."""

    types: ClassVar[frozenset[str]] = frozenset(
        {
            *("web_search", "web_search_2025_08_26"),
            *("web_search_preview", "web_search_preview_2025_03_11"),
            *("file_search", "code_interpreter", "image_generation", "mcp"),
            *("computer", "computer_use", "computer_use_preview"),
            *("shell", "local_shell", "apply_patch"),
        }
    )

    def parse(self, declaration: Raw, param: str) -> None:
        raise invalid(
            f"Invalid value for '{param}.type': neither this server nor the model's runs tools of "
            "this type.",
            f"{param}.type",
            code="unsupported_value",
        )

    def normalize(self, params: None) -> Sequence[Tool]:
        return ()
