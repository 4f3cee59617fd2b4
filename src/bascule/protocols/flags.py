"""What a model server understands, one flag a difference. No flag has a default: a profile that
leaves one out does not load."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

FLATTEN: Final = "flatten_tool_search_family"


class Flags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flags of one upstream or model."""

    developer_role: bool
    """The role `developer` is known; else it becomes `system`."""
    max_completion_tokens: bool
    """The output limit is called so; else `max_tokens`."""
    stream_usage: bool
    """`stream_options.include_usage` is understood."""
    parallel_tool_calls: bool
    """The field is understood."""
    strict_tools: bool
    """`strict` on a function is understood."""
    allowed_tools: bool
    """The `allowed_tools` form of `tool_choice` is understood; else the gateway alone holds it."""
    structured_output: bool
    """`response_format` of type `json_schema` is obeyed."""
    reasoning_effort: Literal["reasoning_effort", "enable_thinking", "none"]
    """How an effort is asked for; `enable_thinking` (a template argument) knows on and off only."""
    reasoning_replay: Literal["reasoning_content", "reasoning", "reasoning_details", "none"]
    """Where earlier reasoning goes in an assistant message."""
    verbosity: bool
    """The field is understood."""
    image_input: bool
    """Image parts are understood."""
    hosted_tools: tuple[str, ...] | Literal["all"]
    """On Responses: the types of tools that the server runs by itself."""
    custom_tools: bool
    """On Responses: custom tools are known; else they become functions."""
    flatten_tool_search_family: bool
    """Namespaces, `tool_search`, `programmatic_tool_calling`, `additional_tools` and their items become
    functions and texts; else they pass as they are. On Chat it is always so."""
    namespace_description: bool
    """On Responses: a namespace needs a description that is not empty."""
    name_limit: Annotated[int, Meta(ge=16, le=256)]
    """Characters that a function's name may have."""
    encrypted_reasoning: bool
    """On Responses: `include: ["reasoning.encrypted_content"]` is understood."""
    file_input: Literal["data", "url", "none"]
    """File parts are understood: with their data, or with a URL in its place too."""
    audio_input: bool
    """Audio parts are understood."""
    logprobs: bool
    """`logprobs` and `top_logprobs` are understood."""
    service_tier: bool
    """The field is understood."""
    prompt_cache: bool
    """`prompt_cache_key` and `prompt_cache_retention` are understood."""
    end_user: bool
    """`safety_identifier` and `user` are understood."""
    input_counting: Literal["tokenize", "template", "input_tokens", "none"]
    """How it counts a request's tokens: `/tokenize` for messages, `/apply-template` and then
    `/tokenize`, or the Responses API's own way."""
    enforces_required: bool
    """The server itself sees to it that `required` ends in a call; else the gateway does."""
    enforces_named: bool
    """The same of a choice that names a function."""
    enforces_none: bool
    """The server never answers `none` with a call."""
    enforces_parallel: bool
    """The server never answers `parallel_tool_calls: false` with several calls."""
    text_tool_calls: bool
    """Calls that the model wrote as text are recovered; for models whose calls their server misses."""
    repair_arguments: bool
    """Arguments may be broken JSON: they are held until complete, and repaired where that fits."""
    grammar: Literal["structured_outputs", "gbnf", "ebnf", "none"]
    """How an answer's whole text is held to a grammar: the member `structured_outputs` of vLLM, `grammar`
    of llama.cpp, `regex` and `ebnf` of SGLang."""


def override(flags: Flags, changes: dict[str, Any]) -> Flags:
    """`flags` with an operator's changes. Raises ValueError for an unknown flag or wrong type."""
    values = msgspec.to_builtins(flags)
    try:
        return msgspec.convert({**values, **changes}, Flags)
    except msgspec.ValidationError as e:
        raise ValueError(f"flags: {e}") from None
