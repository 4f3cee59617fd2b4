"""The arguments by which a model asks to run a command without the sandbox."""

from typing import Any, Final, Literal

Permissions = Literal["use_default", "require_escalated"]

PROPERTIES: Final[dict[str, Any]] = {
    "sandbox_permissions": {
        "type": "string",
        "enum": ["use_default", "require_escalated"],
        "description": "`require_escalated` asks the user to run it without the sandbox.",
    },
    "justification": {
        "type": "string",
        "description": "With `require_escalated`: the question to the user, which says why.",
    },
}
