"""Ollama, its OpenAI-compatible endpoint."""

from bascule.protocols.flags import Flags
from bascule.upstreams.profile import Profile

PROFILE = Profile(
    name="ollama",
    port=11434,
    flags=Flags(
        developer_role=False,
        max_completion_tokens=False,
        stream_usage=True,
        parallel_tool_calls=False,
        strict_tools=False,
        allowed_tools=False,
        structured_output=True,
        reasoning_effort="reasoning_effort",
        reasoning_replay="reasoning",
        verbosity=False,
        image_input=True,
        hosted_tools=(),
        custom_tools=False,
        flatten_tool_search_family=True,
        namespace_description=False,
        name_limit=64,
        encrypted_reasoning=False,
        file_input="none",
        audio_input=False,
        logprobs=True,
        service_tier=False,
        prompt_cache=False,
        end_user=False,
        input_counting="none",
        enforces_required=False,
        enforces_named=False,
        enforces_none=False,
        enforces_parallel=False,
        text_tool_calls=False,
        repair_arguments=False,
        grammar="none",
    ),
)
