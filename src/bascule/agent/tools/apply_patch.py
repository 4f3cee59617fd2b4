"""`apply_patch`: as a custom tool with its grammar, as a function, or in the shape that servers know."""

import time
from typing import Any, ClassVar, Final

import msgspec

from bascule.agent.actions import Action
from bascule.agent.calls import (
    CustomPayload,
    FunctionPayload,
    PatchPayload,
    ToolKind,
    ToolName,
    ToolOutput,
)
from bascule.agent.handler import (
    LocalHandler,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)
from bascule.agent.patching import Planned, operation, planned, write
from bascule.agent.settings import PatchTool

_ABOUT: Final = "Changes files. A patch is applied as a whole, or not at all."
_FORM: Final = """
A patch looks like this:

*** Begin Patch
*** Add File: new.txt
+each line of a new file
*** Delete File: old.txt
*** Update File: src/a.py
*** Move to: src/b.py
@@ def f(x):
     y = x
-    return y
+    return y + 1
*** End Patch

A change begins with `@@`, and after it a line further up, such as that of the function, where the lines \
alone could be anywhere. Give three lines of context before and after it, unless the file has fewer. Every \
line begins with a space (as it is), `-` (goes) or `+` (comes). `*** Move to:` stands only where the file \
gets another name. Paths are relative to the project."""
GRAMMAR: Final = r"""
start: begin section+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
section: addition | deletion | update
addition: "*** Add File: " name LF ("+" rest LF)+
deletion: "*** Delete File: " name LF
update: "*** Update File: " name LF move? (header | line)* bottom?
move: "*** Move to: " name LF
header: "@@" (" " rest)? LF
line: ("+" | "-" | " ") rest LF
bottom: "*** End of File" LF
name: /[^\n]+/
rest: /[^\n]*/
LF: "\n"
"""


class Arguments(msgspec.Struct):
    input: str


class ApplyPatch(LocalHandler):
    """Never beside another tool: what comes after it sees its files."""

    name = ToolName(None, "apply_patch")
    takes: ClassVar[tuple[type, ...]] = (CustomPayload, FunctionPayload, PatchPayload)

    def __init__(self, shape: PatchTool) -> None:
        self._shape = shape

    def spec(self) -> ToolSpec:
        if self._shape == "hosted":
            return ToolSpec({"type": "apply_patch"})
        if self._shape == "function":
            patch = {"type": "string", "description": "The whole patch."}
            return function("apply_patch", _ABOUT + _FORM, schema(["input"], input=patch))
        declaration: dict[str, Any] = {
            "type": "custom",
            "name": "apply_patch",
            "description": f"{_ABOUT} The input is the patch itself, not JSON.{_FORM}",
            "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
        }
        return ToolSpec(declaration)

    def kind(self) -> ToolKind:
        return ToolKind.CUSTOM if self._shape == "custom" else ToolKind.FUNCTION

    async def action(self, invocation: ToolInvocation) -> Action:
        return await planned(_text(invocation), invocation.session.boundary.workspace)

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        patch = invocation.action
        if not isinstance(patch, Planned):
            raise TypeError("apply_patch writes patches")
        began = time.monotonic()
        done = await write(patch, invocation)
        if isinstance(invocation.payload, PatchPayload):
            return ToolOutput(content=done, exit_code=0)
        seconds = time.monotonic() - began
        head = f"Exit code: 0\nWall time: {seconds:.1f} seconds\nOutput:\n"
        return ToolOutput(content=head + done, exit_code=0)


def _text(invocation: ToolInvocation) -> str:
    """The patch. Raises ToolFault."""
    payload = invocation.payload
    if isinstance(payload, CustomPayload):
        return payload.input
    if isinstance(payload, PatchPayload):
        return operation(payload)
    return arguments(payload, Arguments).input
