"""The rows of the capability matrix."""

from typing import Final

from bascule.protocols.capability import Capability, Kind, Support

_HONOURED: Final = Support("honoured")
_TRANSLATED: Final = Support("translated")
_TOLERATED: Final = Support("tolerated")
_REFUSED: Final = Support("refused")


def _row(
    kind: Kind,
    name: str,
    chat: Support,
    responses: Support = _HONOURED,
    note: str = "",
    neutral: tuple[bytes, ...] = (),
) -> Capability:
    return Capability(
        kind=kind, name=name, chat=chat, responses=responses, note=note, neutral=neutral
    )


def _if(flag: str, *values: str) -> Support:
    """Honoured where the flag is set, else tolerated."""
    return Support("honoured", flag, "tolerated", values)


_GATEWAY: Final = "The gateway does it."
_LATER: Final = "This server does not have it yet."
_OPENAI_ONLY: Final = "Chat Completions has no place for it."

_FIELDS: Final = (
    _row("field", "model", _HONOURED, note="Names and aliases choose the upstream."),
    _row("field", "input", _TRANSLATED, note="Becomes messages."),
    _row("field", "instructions", _TRANSLATED, note="Becomes the first system message."),
    _row("field", "previous_response_id", _HONOURED, note=_GATEWAY),
    _row("field", "conversation", _HONOURED, note=_GATEWAY),
    _row("field", "store", _HONOURED, note=_GATEWAY),
    _row("field", "background", _REFUSED, _REFUSED, _LATER, (b"false",)),
    _row("field", "background_options", _REFUSED, _REFUSED, _LATER),
    _row("field", "stream", _HONOURED),
    _row("field", "stream_options", _HONOURED, note="With `stream` only."),
    _row("field", "include", _HONOURED, note="See the values below."),
    _row("field", "tools", _TRANSLATED, note="See the tool types below."),
    _row("field", "tool_choice", _TRANSLATED, note="In the names that the server was told."),
    _row(
        "field",
        "parallel_tool_calls",
        _HONOURED,
        note="By the gateway where the server does not hold to it.",
        neutral=(b"true",),
    ),
    _row("field", "max_tool_calls", _HONOURED, note="Counts the calls that the gateway runs."),
    _row("field", "max_output_tokens", _TRANSLATED, note="`max_completion_tokens`, `max_tokens`."),
    _row("field", "temperature", _HONOURED),
    _row("field", "top_p", _HONOURED),
    _row("field", "presence_penalty", _HONOURED),
    _row("field", "frequency_penalty", _HONOURED),
    _row(
        "field",
        "top_logprobs",
        _if("logprobs"),
        note="Together with `include` of `message.output_text.logprobs`.",
        neutral=(b"0",),
    ),
    _row("field", "text", _TRANSLATED, note="See the options below."),
    _row("field", "reasoning", _TRANSLATED, note="See the options below."),
    _row(
        "field",
        "truncation",
        Support("honoured", otherwise="tolerated", where="the model's context length is known"),
        note="The gateway leaves out the oldest items.",
        neutral=(b'"disabled"',),
    ),
    _row("field", "metadata", _HONOURED, note="Kept and shown."),
    _row(
        "field",
        "service_tier",
        _if("service_tier"),
        note="The response shows the tier that the server used.",
        neutral=(b'"auto"', b'"default"'),
    ),
    _row("field", "prompt_cache_key", _if("prompt_cache")),
    _row("field", "prompt_cache_retention", _if("prompt_cache")),
    _row("field", "prompt_cache_options", _REFUSED, note=_OPENAI_ONLY),
    _row("field", "safety_identifier", _if("end_user")),
    _row("field", "user", _if("end_user")),
    _row(
        "field",
        "prompt",
        _REFUSED,
        _REFUSED,
        "Prompt templates are kept on OpenAI's platform; send `instructions` and `input` instead.",
    ),
    _row("field", "context_management", _REFUSED, _REFUSED, _LATER, (b"[]",)),
    _row("field", "image", _REFUSED, note=_OPENAI_ONLY),
    _row("field", "moderation", _REFUSED, note=_OPENAI_ONLY),
    _row("field", "access_programs", _REFUSED, note=_OPENAI_ONLY),
    _row("field", "multi_agent", _REFUSED, note=_OPENAI_ONLY),
    _row("field", "betas", _REFUSED, note=_OPENAI_ONLY),
)

_OPTIONS: Final = (
    _row(
        "option",
        "text.format",
        Support("translated", "structured_output", "refused"),
        Support("honoured", "structured_output", "refused"),
        note="On Chat it becomes `response_format`; only `json_schema` needs the flag.",
        neutral=(b'{"type":"text"}',),
    ),
    _row("option", "text.verbosity", _if("verbosity"), _if("verbosity")),
    _row(
        "option",
        "reasoning.effort",
        Support("translated", "reasoning_effort", "tolerated"),
        _if("reasoning_effort", "reasoning_effort"),
    ),
    _row("option", "reasoning.summary", _TRANSLATED, note="The reasoning's text is the summary."),
    _row("option", "reasoning.context", _TOLERATED),
    _row("option", "reasoning.mode", _TOLERATED, neutral=(b'"standard"',)),
    _row(
        "option",
        "tools.format",
        _TRANSLATED,
        Support("honoured", where="the server knows custom tools", otherwise="translated"),
        "Of a custom tool. A grammar is in the description, and held by the server where the flag "
        "`grammar` says how, else by the gateway.",
    ),
    _row(
        "option",
        "stream_options.include_obfuscation",
        _HONOURED,
        note="Only when it is asked for: most clients stand next to their gateway, where padding "
        "hides nothing and costs a fifth more bytes.",
    ),
    _row("option", "tools[].strict", _if("strict_tools"), _if("strict_tools"), "When it is true."),
    _row("option", "tools[].output_schema", _TOLERATED, note=_OPENAI_ONLY),
    _row("option", "tools[].defer_loading", _TOLERATED, note="The tool is offered at once."),
    _row(
        "option",
        "tools[].allowed_callers",
        _TOLERATED,
        note="A tool for programs alone is not offered: nothing here runs programs.",
    ),
    _row(
        "option",
        "tools[].async",
        _TRANSLATED,
        note="A call that is not answered yet has a placeholder for its result.",
    ),
)

_INCLUDES: Final = (
    _row("include", "reasoning.encrypted_content", _TRANSLATED, note="Sealed by the gateway."),
    _row("include", "message.output_text.logprobs", _if("logprobs")),
    _row("include", "message.input_image.image_url", _HONOURED),
    _row("include", "computer_call_output.output.image_url", _HONOURED),
    _row("include", "file_search_call.results", _HONOURED),
    _row("include", "web_search_call.results", _HONOURED),
    _row("include", "web_search_call.action.sources", _HONOURED),
    _row("include", "code_interpreter_call.outputs", _HONOURED),
)

_IMAGE: Final = Support("translated", "image_input", "refused")
_NO_FILES: Final = "There is no files endpoint; a server that speaks Responses has its own."

_PARTS: Final = (
    _row("part", "input_text", _TRANSLATED),
    _row("part", "output_text", _TRANSLATED),
    _row("part", "refusal", _TRANSLATED, note="Becomes text."),
    _row("part", "input_image.image_url", _IMAGE, note="In tool outputs: in a message after them."),
    _row("part", "input_image.file_id", _REFUSED, note=_NO_FILES),
    _row(
        "part",
        "input_file.file_data",
        Support("translated", "file_input", "refused", ("data", "url")),
        note="In tool outputs: in a message after them.",
    ),
    _row(
        "part",
        "input_file.file_url",
        Support("translated", "file_input", "refused", ("url",)),
    ),
    _row("part", "input_file.file_id", _REFUSED, note=_NO_FILES),
    _row("part", "input_audio", Support("translated", "audio_input", "refused")),
    _row("part", "computer_screenshot", _IMAGE, note="The output of a `computer_call`."),
)

_PLUGIN: Final = Support("honoured", where="`hosted_tools` lists the type", otherwise="translated")
_FAMILY: Final = Support("honoured", where="the server knows the family", otherwise="translated")
_PAIR: Final = "Call and output become a function call and its output."
_ITEMS: Final = (
    _row("item", "message", _TRANSLATED, note="`phase` is kept, but not said to the model."),
    _row("item", "reasoning", _TRANSLATED, note="Goes back where the profile has a place for it."),
    _row("item", "function_call", _TRANSLATED),
    _row("item", "function_call_output", _TRANSLATED),
    _row("item", "custom_tool_call", _TRANSLATED),
    _row("item", "custom_tool_call_output", _TRANSLATED),
    _row("item", "item_reference", _HONOURED, note="The stored item takes its place."),
    _row("item", "web_search_call", _TRANSLATED, note=_PAIR),
    _row("item", "file_search_call", _TRANSLATED, note=_PAIR),
    _row("item", "code_interpreter_call", _TRANSLATED, note=_PAIR),
    _row("item", "image_generation_call", _TRANSLATED, note=_PAIR),
    _row("item", "mcp_list_tools", _TRANSLATED, note="Says nothing to the model."),
    _row("item", "mcp_call", _TRANSLATED, note=_PAIR),
    _row("item", "mcp_approval_request", _TRANSLATED, note=_PAIR),
    _row("item", "mcp_approval_response", _TRANSLATED, note=_PAIR),
    _row("item", "shell_call", _TRANSLATED, note=_PAIR),
    _row("item", "shell_call_output", _TRANSLATED, note=_PAIR),
    _row("item", "apply_patch_call", _TRANSLATED, note=_PAIR),
    _row("item", "apply_patch_call_output", _TRANSLATED, note=_PAIR),
    _row("item", "local_shell_call", _TRANSLATED, note=_PAIR),
    _row("item", "local_shell_call_output", _TRANSLATED, note=_PAIR),
    _row("item", "computer_call", _TRANSLATED, note=_PAIR),
    _row("item", "computer_call_output", _TRANSLATED, note=_PAIR),
    _row("item", "tool_search_call", _TRANSLATED, _FAMILY, _PAIR),
    _row(
        "item",
        "tool_search_output",
        _TRANSLATED,
        _FAMILY,
        f"{_PAIR} The tools that it has are declared from then on.",
    ),
    _row("item", "slug:name_call", _TRANSLATED, _PLUGIN, f"Of tools that plugins bring. {_PAIR}"),
    _row("item", "agent_message", _TRANSLATED, note="Framed text without a user's authority."),
    _row(
        "item",
        "additional_tools",
        _TRANSLATED,
        _FAMILY,
        "Its tools are declared from then on; the item itself is not listed.",
    ),
    _row(
        "item",
        "program",
        _TRANSLATED,
        _FAMILY,
        "Text, if it has ended. One that has not is refused: there is no runtime for programs here.",
    ),
    _row("item", "program_output", _TRANSLATED, _FAMILY, "Text."),
    _row(
        "item",
        "compaction",
        _REFUSED,
        note="What it stands for cannot be read here, and the model would miss it.",
    ),
    _row(
        "item",
        "context_compaction",
        _REFUSED,
        note="What it stands for cannot be read here, and the model would miss it.",
    ),
    _row("item", "compaction_trigger", _REFUSED, note="There is no compaction here."),
    _row(
        "item",
        "configuration_update",
        _REFUSED,
        note="Options cannot change within a history; send them as fields.",
    ),
    _row("item", "multi_agent_call", _REFUSED, note="There are no agents of the server's here."),
    _row(
        "item",
        "multi_agent_call_output",
        _REFUSED,
        note="There are no agents of the server's here.",
    ),
)

_HOSTED: Final = Support("honoured", where="the server runs it by itself", otherwise="tolerated")
_NOT_WITHOUT_FAMILY: Final = Support(
    "honoured", where="the server knows the family", otherwise="tolerated"
)
_NOT_OFFERED: Final = "Without an executor the model is not told of it."
_TOOLS: Final = (
    _row("tool", "function", _TRANSLATED, note="Executed by the client."),
    _row(
        "tool",
        "custom",
        _TRANSLATED,
        Support("honoured", "custom_tools", "translated"),
        "A function with one text; executed by the client.",
    ),
    _row(
        "tool",
        "namespace",
        _TRANSLATED,
        _FAMILY,
        "A function for each member; executed by the client.",
    ),
    _row(
        "tool",
        "mcp",
        _TRANSLATED,
        Support("honoured", where="`hosted_tools` has it", otherwise="translated"),
        "A function for each of the server's tools; executed by the gateway.",
    ),
    _row(
        "tool",
        "tool_search",
        Support("translated", where="the client executes it", otherwise="tolerated"),
        _NOT_WITHOUT_FAMILY,
        "A function `tool_search`, whose calls are `tool_search_call`s. Without it deferred tools are "
        "offered at once.",
    ),
    _row(
        "tool",
        "programmatic_tool_calling",
        _TOLERATED,
        _NOT_WITHOUT_FAMILY,
        "There is no runtime for programs here; tools for programs alone are not offered.",
    ),
    *(
        _row(
            "tool",
            name,
            Support("translated", where="an engine is configured", otherwise="tolerated"),
            _HOSTED,
            "A function `web_search`; executed by the gateway. Without an engine the model is not told "
            "of it.",
        )
        for name in (
            *("web_search", "web_search_2025_08_26"),
            *("web_search_preview", "web_search_preview_2025_03_11"),
        )
    ),
    *(
        _row("tool", name, _TOLERATED, _HOSTED, _NOT_OFFERED)
        for name in ("file_search", "code_interpreter", "image_generation")
    ),
    *(
        _row(
            "tool",
            name,
            _TRANSLATED,
            Support("honoured", where="`hosted_tools` has it", otherwise="translated"),
            note,
        )
        for name, note in {
            "shell": "A function; executed by the client. In a container: as hosted tools are.",
            "apply_patch": "A function; executed by the client.",
            "local_shell": "A function; executed by the client.",
            "computer": "A function; executed by the client.",
            "computer_use_preview": "A function `computer`; executed by the client.",
        }.items()
    ),
    _row(
        "tool",
        "slug:name",
        _TRANSLATED,
        _PLUGIN,
        "A function; the gateway runs it, where a plugin or a module brings the type.",
    ),
    _row("tool", "any other", _REFUSED, note="Nobody here knows what the model would be told."),
)

ROWS: Final = (*_FIELDS, *_OPTIONS, *_INCLUDES, *_PARTS, *_ITEMS, *_TOOLS)
