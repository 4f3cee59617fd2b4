"""The catalog of models as Codex reads it from GET /v1/models?client_version=...

One entry without a field that Codex requires makes it throw the whole answer away. The fields that
codex-cli 0.171 requires were found by giving it catalogs with one field missing (`codex debug models`
with `model_catalog_json`); older versions also require `supports_reasoning_summaries` and
`supports_parallel_tool_calls`. What is unknown is left out or has the value that Codex itself takes
for a model it does not know.
"""

from collections.abc import Sequence
from typing import Any, Final

from bascule.protocols.flags import Flags
from bascule.upstreams.catalog import CatalogModel
from bascule.upstreams.routing import Router

_INSTRUCTIONS: Final = (
    "You are a coding agent that runs in Codex CLI on the user's computer. Work on the task with the "
    "tools that you are given: read what is there before you change it, make changes that fit the "
    "code around them, and check your work by running it. Go on until the task is done; ask only "
    "when you cannot decide yourself. Do not touch what the task does not concern. At the end say "
    "briefly what you did and what is left."
)
"""Required by Codex, which has no prompt of its own for a model that its catalog names."""

_EFFORTS: Final = {
    "reasoning_effort": {
        "low": "Answers soon",
        "medium": "Thinks for a while",
        "high": "Thinks for long",
    },
    "enable_thinking": {"none": "Answers at once", "medium": "Thinks first"},
    "none": {},
}


def codex_catalog(models: Sequence[CatalogModel], router: Router) -> dict[str, Any]:
    """The whole answer."""
    return {
        "models": [
            _entry(priority, model, router.resolve(model.id).flags)
            for priority, model in enumerate(models, 1)
        ]
    }


def _entry(priority: int, model: CatalogModel, flags: Flags) -> dict[str, Any]:
    details = model.details
    reads = details.input or (("text", "image") if flags.image_input else ("text",))
    efforts = _EFFORTS[flags.reasoning_effort]
    entry: dict[str, Any] = {
        "slug": model.id,
        "display_name": model.id,
        "description": None,
        "supported_reasoning_levels": [
            {"effort": effort, "description": text} for effort, text in efforts.items()
        ],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "upgrade": None,
        "base_instructions": _INSTRUCTIONS,
        "supports_reasoning_summaries": flags.reasoning_effort != "none",
        "support_verbosity": flags.verbosity,
        "default_verbosity": None,
        "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "bytes", "limit": 10_000},
        "supports_parallel_tool_calls": flags.parallel_tool_calls,
        "experimental_supported_tools": [],
        "input_modalities": list(reads),
    }
    if details.context_length is not None:
        entry["context_window"] = details.context_length
    return entry
