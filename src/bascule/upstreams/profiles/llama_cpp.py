"""llama.cpp's server."""

from bascule.protocols.flags import Flags
from bascule.upstreams.profile import Profile

PROFILE = Profile(
    name="llama_cpp",
    port=8080,
    flags=Flags(
        developer_role=False,
        max_completion_tokens=False,
        stream_usage=True,
        parallel_tool_calls=True,
        strict_tools=False,
        allowed_tools=False,
        structured_output=True,
        reasoning_effort="enable_thinking",
        reasoning_replay="reasoning_content",
        verbosity=False,
        image_input=True,
        hosted_tools=(),
        custom_tools=False,
        flatten_tool_search_family=True,
        namespace_description=False,
        name_limit=64,
        encrypted_reasoning=False,
        file_input="none",
        audio_input=True,
        logprobs=True,
        service_tier=False,
        prompt_cache=False,
        end_user=False,
        input_counting="template",
        enforces_required=False,
        enforces_named=False,
        enforces_none=True,
        enforces_parallel=False,
        text_tool_calls=False,
        repair_arguments=False,
        grammar="gbnf",
    ),
    # Its Responses endpoint lets `text.format` pass unheeded.
    on_responses={"structured_output": False, "grammar": "none"},
)
