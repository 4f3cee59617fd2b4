"""The items of MCP as a client sees them, and their events."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.ids import mint
from bascule.protocols.responses.events import OtherItemEvent
from bascule.protocols.responses.items import ItemStatus
from bascule.services.mcp import McpTool
from bascule.toolkit.approval import Question
from bascule.toolkit.discovery import Announcement
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.projection import ItemWriter, Projection


class ListedTool(msgspec.Struct):
    """A tool in an `mcp_list_tools`, ours or another server's."""

    name: str
    input_schema: Raw = Raw(b"{}")
    description: str | None = None
    annotations: dict[str, Any] | None = None

    def tool(self) -> McpTool:
        read_only = (self.annotations or {}).get("read_only") is True
        return McpTool(self.name, self.description or "", self.input_schema, read_only)


class ListedTools(Announcement):
    """`mcp_list_tools`: added without tools, in_progress, completed or failed, done. It has no status;
    a server that could not be asked has an `error`."""

    id_prefix: ClassVar[str] = "mcpl"

    def __init__(
        self, label: str, tools: Sequence[McpTool], error: dict[str, Any] | None = None
    ) -> None:
        self._label = label
        self._tools = tools
        self._error = error

    def show(self, writer: ItemWriter) -> None:
        writer.added(self._item(writer.item_id, []))
        _event(writer, "mcp_list_tools.in_progress")
        _event(writer, f"mcp_list_tools.{'completed' if self._error is None else 'failed'}")
        tools = [
            {
                "annotations": {"read_only": tool.read_only},
                "description": tool.description,
                "input_schema": tool.input_schema,
                "name": tool.name,
            }
            for tool in self._tools
        ]
        item = self._item(writer.item_id, tools)
        writer.done(item if self._error is None else {**item, "error": self._error})

    def _item(self, id_: str, tools: Sequence[Any]) -> dict[str, Any]:
        return {"id": id_, "type": "mcp_list_tools", "server_label": self._label, "tools": tools}


class CallProjection(Projection):
    """`mcp_call`: added without arguments, in_progress, one delta of the arguments and their end,
    completed or failed, done."""

    id_prefix: ClassVar[str] = "mcp"

    def __init__(self, writer: ItemWriter, call: Call, label: str, name: str) -> None:
        super().__init__(writer, call)
        self._label = label
        self._name = name
        self._arguments = ""

    def begin(self) -> None:
        self.writer.added(self._item("in_progress"))
        _event(self.writer, "mcp_call.in_progress")

    def complete(self, arguments: str, status: ItemStatus) -> None:
        self._arguments = arguments
        _event(self.writer, "mcp_call_arguments.delta", delta=arguments)
        _event(self.writer, "mcp_call_arguments.done", arguments=arguments)
        if status == "incomplete":
            self.writer.done(self._item("incomplete"))

    def finish(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            _event(self.writer, "mcp_call.failed")
            self.writer.done(self._item("failed", error=_error(outcome)))
        elif isinstance(outcome, Output):
            _event(self.writer, "mcp_call.completed")
            self.writer.done(self._item("completed", output=_output(outcome)))

    def _item(self, status: str, *, output: Any = None, error: Any = None) -> dict[str, Any]:
        return {
            "id": self.writer.item_id,
            "type": "mcp_call",
            "status": status,
            "approval_request_id": self.call.approved_by,
            "arguments": self._arguments,
            "error": error,
            "name": self._name,
            "output": output,
            "server_label": self._label,
        }


def _output(outcome: Output) -> Any:
    """The text for the client; what was too large for it is cut as the model's is."""
    if outcome.public != b"null":
        return Raw(outcome.public)
    output = outcome.output
    return output if isinstance(output, str) else json.encode(output).decode()


def _error(outcome: Failed) -> Any:
    if outcome.public != b"null":
        return Raw(outcome.public)
    return {"type": "tool_execution_error", "message": outcome.message}


def approval_request(call: Call, identity: Identity) -> Question:
    """`mcp_approval_request`: which call waits."""
    id_ = mint("mcpr")
    item = {
        "id": id_,
        "type": "mcp_approval_request",
        "arguments": call.arguments,
        "name": identity.name,
        "server_label": identity.namespace,
    }
    return Question(json.encode(item), id_)


def _event(writer: ItemWriter, name: str, **fields: str) -> None:
    writer.event(OtherItemEvent(-1, "", 0, f"response.{name}", fields))
