"""One declaration of each type, as clients send them; `seen` is how a function of it is called."""

from typing import Any

Json = dict[str, Any]

_MEMBER: Json = {"type": "function", "name": "find", "parameters": {"type": "object"}}

DECLARED: dict[str, Json] = {
    "function": {"type": "function", "name": "x", "description": "X"},
    "custom": {"type": "custom", "name": "x", "description": "X"},
    "namespace": {"type": "namespace", "name": "crm", "description": "", "tools": [_MEMBER]},
    "tool_search": {"type": "tool_search"},
    "programmatic_tool_calling": {"type": "programmatic_tool_calling"},
    "web_search": {"type": "web_search"},
    "web_search_2025_08_26": {"type": "web_search_2025_08_26"},
    "web_search_preview": {"type": "web_search_preview"},
    "web_search_preview_2025_03_11": {"type": "web_search_preview_2025_03_11"},
    "file_search": {"type": "file_search", "vector_store_ids": ["vs_1"]},
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "mcp": {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp"},
    "image_generation": {"type": "image_generation"},
    "shell": {"type": "shell", "environment": {"type": "local"}},
    "apply_patch": {"type": "apply_patch"},
    "local_shell": {"type": "local_shell"},
    "computer": {"type": "computer"},
    "computer_use_preview": {
        "type": "computer_use_preview",
        "display_width": 800,
        "display_height": 600,
        "environment": "browser",
    },
    "slug:name": {"type": "acme:add"},
    "any other": {"type": "acme:nobody"},
}

WIRE: dict[str, str] = {
    "function": "x",
    "custom": "x",
    "namespace": "crm__find",
    "computer_use_preview": "computer",
    "slug:name": "acme__add",
}
"""Names of the functions, where they are not called as the type is."""
