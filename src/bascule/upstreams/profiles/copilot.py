"""GitHub Copilot, which is OpenAI behind a door of its own: no tiers, no caches to name, no end users."""

from bascule.protocols.flags import Flags
from bascule.upstreams.profile import Profile

PROFILE = Profile(
    name="copilot",
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
        namespace_description=True,
        name_limit=64,
        encrypted_reasoning=True,
        file_input="data",
        audio_input=False,
        logprobs=True,
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
