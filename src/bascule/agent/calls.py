"""What a model calls and what it is answered: each converted once, at the edge.

An item of the model's becomes a `ToolCall`; a handler's `ToolOutput` becomes the input item that
belongs to the call, in the shape of the item that made it.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Part
from bascule.toolkit.outcome import Failed, Outcome, Output, Suspended

ABORTED: Final = "aborted"
"""What the model reads of a call that has no output of its own."""


class ToolName(NamedTuple):
    """Tools are told apart by both parts together; most have no namespace."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class ToolKind(Enum):
    """What a handler is called with."""

    FUNCTION = "function"
    CUSTOM = "custom"
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    PATCH = "apply_patch"
    UNIFIED_EXEC = "unified_exec"
    MCP = "mcp"
    TOOL_SEARCH = "tool_search"


class FunctionPayload(msgspec.Struct, frozen=True):
    """Arguments as the model wrote them; JSON, if it did well."""

    arguments: str


class UnifiedExecPayload(FunctionPayload, frozen=True):
    """Of the tools whose commands outlive a call."""


class McpPayload(FunctionPayload, frozen=True):
    """Of a server's tool."""

    server: str
    tool: str


class CustomPayload(msgspec.Struct, frozen=True):
    """A text of the tool's own form."""

    input: str


class LocalShellPayload(msgspec.Struct, frozen=True):
    """One command: a program and its arguments."""

    command: list[str]
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class ShellPayload(msgspec.Struct, frozen=True):
    """Commands for a shell. `max_output_length` is in characters, of each."""

    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class PatchPayload(msgspec.Struct, frozen=True):
    """One file's operation. `diff` is the body of a section, without its head."""

    type: str
    path: str
    diff: str | None = None


class ToolSearchPayload(msgspec.Struct, frozen=True):
    """What is looked for; `limit` tools at most."""

    query: str
    limit: int | None = None


class MalformedPayload(msgspec.Struct, frozen=True):
    """An item that does not say what its type needs; the reason is for the model."""

    reason: str


ToolPayload = (
    FunctionPayload
    | CustomPayload
    | LocalShellPayload
    | ShellPayload
    | PatchPayload
    | ToolSearchPayload
    | MalformedPayload
)


class ToolCall(msgspec.Struct, frozen=True):
    """One call of the model's. `item_type` says in which shape it is answered."""

    name: ToolName
    call_id: str
    payload: ToolPayload
    item_type: str = "function_call"


P = TypeVar("P", bound=msgspec.Struct)


class _Call(msgspec.Struct):
    type: str
    call_id: str | None = None
    id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: Any = None
    input: Any = None
    action: Raw = Raw()
    operation: Raw = Raw()
    execution: str | None = None


_call = json.decoder(_Call)
_IMPLICIT: Final = {
    "local_shell_call": ("local_shell", "action", LocalShellPayload),
    "shell_call": ("shell", "action", ShellPayload),
    "apply_patch_call": ("apply_patch", "operation", PatchPayload),
}
CALLS: Final = frozenset({"function_call", "custom_tool_call", "tool_search_call", *_IMPLICIT})
"""Item types that are calls for the client. A `tool_search_call` is one if it says so."""
OUTPUTS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
}
"""The item type that answers each."""


def read_call(item: bytes | Raw) -> ToolCall | None:
    """The call that an output item is; None for an item that is none of the client's.

    Its payload is the item type's own: what is called by a function's name is told apart by whoever
    knows the tools (`ToolRouter`).
    """
    read = _call(item)
    call_id = read.call_id or read.id or ""
    if read.type == "function_call":
        text = read.arguments if isinstance(read.arguments, str) else json.encode(read.arguments)
        payload = FunctionPayload(text if isinstance(text, str) else text.decode())
        return ToolCall(ToolName(read.namespace or None, read.name), call_id, payload, read.type)
    if read.type == "custom_tool_call":
        text = read.input if isinstance(read.input, str) else json.encode(read.input).decode()
        name = ToolName(read.namespace or None, read.name)
        return ToolCall(name, call_id, CustomPayload(text), read.type)
    if read.type == "tool_search_call":
        if read.execution != "client":
            return None
        return ToolCall(ToolName(None, "tool_search"), call_id, _search(read.arguments), read.type)
    if read.type in _IMPLICIT:
        name, member, type_ = _IMPLICIT[read.type]
        payload: Any = _converted(getattr(read, member), type_)
        return ToolCall(ToolName(None, name), call_id, payload, read.type)
    return None


def _search(arguments: Any) -> ToolPayload:
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError as e:
            return MalformedPayload(f"failed to parse function arguments: {e}")
    try:
        return msgspec.convert(arguments, ToolSearchPayload)
    except msgspec.ValidationError as e:
        return MalformedPayload(f"failed to parse function arguments: {e}")


def _converted(raw: Raw, type_: type[P]) -> P | MalformedPayload:
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.DecodeError as e:
        return MalformedPayload(f"failed to parse function arguments: {e}")


class Ran(msgspec.Struct, frozen=True):
    """What one command of a `shell_call` left; without an exit code it took too long."""

    stdout: str
    stderr: str
    exit_code: int | None


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a call gave: a text, or parts where there are images. `ran` and `tools` belong to calls whose
    answer has a form of its own."""

    content: str | list[Part]
    success: bool = True
    ran: Sequence[Ran] | None = None
    tools: Sequence[Raw] | None = None
    denied: bool = False
    """Whether the sandbox looks like the reason for which it failed."""
    exit_code: int | None = None
    """Of the command that was run, if it has ended."""

    def outcome(self) -> Outcome:
        """As the scheduler keeps it."""
        whole = isinstance(self.content, str) and self.ran is None and self.tools is None
        public = b"null" if whole else json.encode(self)
        if self.success:
            return Output(output=self.content, public=public)
        return Failed(message=self.text, public=public)

    @classmethod
    def of(cls, outcome: Outcome) -> "ToolOutput":
        """What `outcome` made, or what became of the call otherwise."""
        if isinstance(outcome, Suspended):
            raise TypeError("a local tool does not wait for its client")
        if outcome.public != b"null":
            return _output(outcome.public)
        if isinstance(outcome, Failed):
            return cls(content=outcome.message, success=False)
        return cls(content=outcome.output)

    @property
    def text(self) -> str:
        """In words."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text or f"[{part.type}]" for part in self.content)

    def input_item(self, call: ToolCall) -> bytes:
        """The item that answers a call: the one place where this is written."""
        members: dict[str, Any] = {"type": OUTPUTS[call.item_type], "call_id": call.call_id}
        match call.item_type:
            case "shell_call":
                members |= self._shell(call)
            case "apply_patch_call":
                members |= {
                    "status": "completed" if self.success else "failed",
                    "output": self.text,
                }
            case "tool_search_call":
                status = "completed" if self.success else "incomplete"
                members |= {"status": status, "execution": "client", "tools": self.tools or []}
            case "local_shell_call":
                members["output"] = self.text
            case _:
                members["output"] = self.content
        return json.encode(members)

    def _shell(self, call: ToolCall) -> dict[str, Any]:
        ran = self.ran if self.ran is not None else [Ran("", self.text, 1)]
        output = [
            {
                "stdout": one.stdout,
                "stderr": one.stderr,
                "outcome": {"type": "timeout"}
                if one.exit_code is None
                else {"type": "exit", "exit_code": one.exit_code},
            }
            for one in ran
        ]
        members: dict[str, Any] = {"status": "completed", "output": output}
        payload = call.payload
        if isinstance(payload, ShellPayload) and payload.max_output_length is not None:
            members["max_output_length"] = payload.max_output_length
        return members


_output = json.decoder(ToolOutput)


def aborted(text: str = ABORTED) -> ToolOutput:
    """Of a call that did not come to its end."""
    return ToolOutput(content=text, success=False)
