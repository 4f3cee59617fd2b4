"""OpenAI, and what speaks exactly like it."""

from bascule.protocols.flags import Flags
from bascule.upstreams.profile import Profile

PROFILE = Profile(
    name="openai",
    flags=Flags(
        developer_role=True,
        max_completion_tokens=True,
        stream_usage=True,
        parallel_tool_calls=True,
        strict_tools=True,
        allowed_tools=True,
        structured_output=True,
        reasoning_effort="reasoning_effort",
        reasoning_replay="none",
        verbosity=True,
        image_input=True,
        hosted_tools="all",
        custom_tools=True,
        flatten_tool_search_family=False,
        namespace_description=False,
        name_limit=64,
        encrypted_reasoning=True,
        file_input="data",
        audio_input=True,
        logprobs=True,
        service_tier=True,
        prompt_cache=True,
        end_user=True,
        input_counting="none",
        enforces_required=True,
        enforces_named=True,
        enforces_none=True,
        enforces_parallel=True,
        text_tool_calls=False,
        repair_arguments=False,
        grammar="none",
    ),
    on_responses={"input_counting": "input_tokens"},
)
