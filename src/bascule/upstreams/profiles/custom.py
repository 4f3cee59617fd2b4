"""A server of which nothing is known: what nearly all of them understand."""

from bascule.protocols.flags import Flags
from bascule.upstreams.profile import Profile

PROFILE = Profile(
    name="custom",
    flags=Flags(
        developer_role=False,
        max_completion_tokens=False,
        stream_usage=True,
        parallel_tool_calls=False,
        strict_tools=False,
        allowed_tools=False,
        structured_output=True,
        reasoning_effort="none",
        reasoning_replay="none",
        verbosity=False,
        image_input=True,
        hosted_tools=(),
        custom_tools=False,
        flatten_tool_search_family=False,
        namespace_description=False,
        name_limit=64,
        encrypted_reasoning=False,
        file_input="none",
        audio_input=False,
        logprobs=False,
        service_tier=False,
        prompt_cache=False,
        end_user=False,
        input_counting="none",
        enforces_required=False,
        enforces_named=False,
        enforces_none=False,
        enforces_parallel=False,
        text_tool_calls=False,
        repair_arguments=True,
        grammar="none",
    ),
    # What is reached by Responses is most likely more than a bare model, and says itself what it
    # does not take.
    on_responses={
        "developer_role": True,
        "parallel_tool_calls": True,
        "strict_tools": True,
        "allowed_tools": True,
        "reasoning_effort": "reasoning_effort",
        "verbosity": True,
        "hosted_tools": "all",
        "custom_tools": True,
        "input_counting": "input_tokens",
    },
)
