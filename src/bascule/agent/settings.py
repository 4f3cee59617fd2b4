"""What a session is made with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from bascule.agent.approvals.policy import Approval

ShellTool = Literal["exec_command", "shell", "local_shell", "hosted", "none"]
PatchTool = Literal["custom", "function", "hosted", "none"]


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tools the model is offered, and in which shape. What is enabled here is registered, and
    nothing else is."""

    shell: ShellTool = "exec_command"
    """Commands: with sessions, as argument lists, or in the shape of a type that servers know."""
    apply_patch: PatchTool = "custom"
    plan: bool = True
    view_image: bool = True
    web_search: bool = False
    """Declares the server's own search; nothing is run here."""
    namespaces: bool = True
    """Whether the endpoint knows namespaces and searches for tools; else each tool of a server is a
    function under one name, and all are offered at once."""
    defer_above: int = 40
    """Tools of MCP servers that are offered at once; if there are more, the model has to search."""
    max_output_tokens: int = 10_000
    """Of one call's output at most, whatever the model asks for."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`home` is the folder of the agent's own files."""

    model: str
    home: Path
    approval: Approval = "on-request"
    tools: ToolsConfig = ToolsConfig()
    instructions: str | None = None
    """In place of the built-in ones."""
    reasoning_effort: str | None = None
    output_schema: Mapping[str, Any] | None = None
    tool_choice: Any = "auto"
    max_rounds: int = 500
    env: Mapping[str, str] = {}
    """Variables for commands, besides the agent's own."""
    env_keep: frozenset[str] = frozenset()
    """Variables that are passed on although they look like secrets."""
