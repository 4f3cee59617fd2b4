"""Anthropic, by its Chat Completions endpoint until it is spoken to by Messages."""

from bascule.protocols.flags import Flags
from bascule.upstreams.profile import Profile

PROFILE = Profile(
    name="anthropic",
    flags=Flags(
        developer_role=False,
        max_completion_tokens=False,
        stream_usage=True,
        parallel_tool_calls=True,
        strict_tools=False,
        allowed_tools=False,
        structured_output=False,
        reasoning_effort="none",
        reasoning_replay="none",
        verbosity=False,
        image_input=True,
        hosted_tools=(),
        custom_tools=False,
        flatten_tool_search_family=True,
        namespace_description=False,
        name_limit=128,
        encrypted_reasoning=False,
        file_input="none",
        audio_input=False,
        logprobs=False,
        service_tier=False,
        prompt_cache=False,
        end_user=False,
        input_counting="none",
        enforces_required=True,
        enforces_named=True,
        enforces_none=True,
        enforces_parallel=True,
        text_tool_calls=False,
        repair_arguments=False,
        grammar="none",
    ),
)
