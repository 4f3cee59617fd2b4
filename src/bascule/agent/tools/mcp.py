"""A tool of an MCP server: one handler for all of them."""

import re
import time
from typing import Any, Final

import msgspec

from bascule.agent.actions import Action, CallServer
from bascule.agent.calls import FunctionPayload, ToolKind, ToolName, ToolOutput
from bascule.agent.handler import (
    Exposure,
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
)
from bascule.agent.processes.output import shortened
from bascule.agent.servers import HARD_SECONDS, Servers, ServerTools
from bascule.protocols import json
from bascule.protocols.responses.items import Part
from bascule.services.mcp import McpError, McpResult, McpTool
from bascule.toolkit.outcome import Failed, Outcome, Output
from bascule.tools.mcp_results import outcome_of

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_]")
_PASSED: Final = ("type", "properties", "required", "$defs", "definitions")


def legal(name: str) -> str:
    """A name that every endpoint takes."""
    return _ILLEGAL.sub("_", name) or "_"


class McpTools(LocalHandler):
    """Its namespace is `mcp__SERVER`. Signs that are not legal in names become `_`; of names that are
    the same then, later ones get a number."""

    def __init__(
        self, servers: Servers, of: ServerTools, tool: McpTool, name: ToolName, exposure: Exposure
    ) -> None:
        self._servers = servers
        self._of = of
        self._tool = tool
        self.name = name
        self.exposure = exposure
        self.parallel = tool.read_only  # type: ignore[misc] -- known of each tool by itself
        self.about_namespace = f"Tools of the MCP server {of.section.label}."

    def spec(self) -> ToolSpec:
        whole = json.as_object(msgspec.json.decode(self._tool.input_schema)) or {}
        parameters = {name: whole[name] for name in _PASSED if name in whole}
        parameters.setdefault("type", "object")
        parameters.setdefault("properties", {})
        return ToolSpec(
            {
                "type": "function",
                "name": self.name.name,
                "description": self._tool.description,
                "strict": False,
                "parameters": parameters,
            }
        )

    def kind(self) -> ToolKind:
        return ToolKind.MCP

    async def action(self, invocation: ToolInvocation) -> Action:
        _arguments(invocation)
        return CallServer(
            server=self._of.section.label,
            tool=self._tool.name,
            arguments=_text(invocation),
            read_only=self._tool.read_only,
            asks=self._of.asks(self._tool),
        )

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        began = time.monotonic()
        try:
            result = await self._servers.pool.call(
                self._of.server,
                self._tool.name,
                _arguments(invocation),
                seconds=self._of.seconds,
                hard_limit=HARD_SECONDS,
            )
        except McpError as e:
            raise ToolFault(f"The MCP server {self._of.section.label}: {e.message}") from None
        limit = invocation.session.settings.tools.max_output_tokens
        return answered(result, time.monotonic() - began, limit)


def answered(result: McpResult, seconds: float, max_tokens: int) -> ToolOutput:
    """What a server gave, under a head of two lines. Its structured content goes before the rest."""
    head = f"Wall time: {seconds:.4f} seconds\nOutput:\n"
    if result.structured is not None and not result.is_error:
        text = bytes(result.structured).decode("utf-8", "replace")
        return ToolOutput(content=head + shortened(text, max_tokens))
    outcome = outcome_of(result, images=True)
    if isinstance(outcome, Failed):
        return ToolOutput(content=head + shortened(outcome.message, max_tokens), success=False)
    return _with_head(head, outcome, max_tokens)


def _with_head(head: str, outcome: Outcome, max_tokens: int) -> ToolOutput:
    if not isinstance(outcome, Output):
        raise TypeError("an MCP server's answer is an output")
    if isinstance(outcome.output, str):
        return ToolOutput(content=head + shortened(outcome.output, max_tokens))
    parts = [
        part
        if part.text is None
        else msgspec.structs.replace(part, text=shortened(part.text, max_tokens))
        for part in outcome.output
    ]
    return ToolOutput(content=[Part("input_text", text=head), *parts])


def _text(invocation: ToolInvocation) -> str:
    payload = invocation.payload
    return payload.arguments if isinstance(payload, FunctionPayload) else ""


def _arguments(invocation: ToolInvocation) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_text(invocation) or "{}", type=dict[str, Any])
    except msgspec.DecodeError as e:
        raise ToolFault(f"failed to parse function arguments: {e}") from None
