"""For each item type a history that holds it, and the messages that a Chat server must read."""

from typing import Any

import msgspec

Json = dict[str, Any]
Messages = list[Json]

SHOT = "data:image/png;base64,AAAA"
PATCH: Json = {"type": "update_file", "path": "a.py", "diff": "@@\n-1\n+2"}


def called(call_id: str, name: str, arguments: Any, output: str) -> Messages:
    """The two messages of a call and its output."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": output, "tool_call_id": call_id},
    ]


def image_after(call_id: str, url: str) -> Json:
    label = {"type": "text", "text": f"Images returned by tool call {call_id}:"}
    return {"role": "user", "content": [label, {"type": "image_url", "image_url": {"url": url}}]}


def _listed(name: str, *items: Json, messages: Messages) -> tuple[str, tuple[list[Json], Messages]]:
    return name, (list(items), messages)


_FUNCTION = (
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "done"},
)
_CUSTOM = (
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "run", "input": "1"},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
)
_SHELL = (
    {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls", "false"], "timeout_ms": 1000, "max_output_length": None},
    },
    {
        "type": "shell_call_output",
        "call_id": "c1",
        "output": [
            {"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "bad", "outcome": {"type": "exit", "exit_code": 1}},
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
        ],
    },
)
_PATCH = (
    {"type": "apply_patch_call", "call_id": "c1", "status": "completed", "operation": PATCH},
    {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no file"},
)
_LOCAL = (
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5},
    },
    {"type": "local_shell_call_output", "id": "c1", "output": "a.py"},
)
_COMPUTER = (
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
        "pending_safety_checks": [],
    },
    {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": SHOT},
    },
)
_SEARCH = (
    {
        "type": "tool_search_call",
        "id": "tsc_1",
        "execution": "client",
        "call_id": "c1",
        "status": "completed",
        "arguments": {"goal": "find a customer"},
    },
    {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": "c1",
        "status": "completed",
        "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}],
    },
)
_PROGRAM = (
    {"type": "program", "id": "cm_1", "call_id": "c1", "code": "text(1)", "fingerprint": "f"},
    {
        "type": "program_output",
        "id": "cmo_1",
        "call_id": "c1",
        "result": "1",
        "status": "completed",
    },
)
_APPROVAL = (
    {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "crm",
        "name": "drop",
        "arguments": '{"id":1}',
    },
    {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": False,
        "reason": "Too risky.",
    },
)

_FUNCTION_MESSAGES = called("c1", "f", "{}", "done")
_CUSTOM_MESSAGES = called("c1", "run", {"input": "1"}, "done")
_SHELL_MESSAGES = called(
    "c1",
    "shell",
    {"commands": ["ls", "false"], "timeout_ms": 1000},
    "exit code 0\nstdout:\na.py\n\n\nexit code 1\nstderr:\nbad\n\ntimed out",
)
_PATCH_MESSAGES = called("c1", "apply_patch", {"operation": PATCH}, "failed: no file")
_LOCAL_MESSAGES = called("c1", "local_shell", {"command": ["ls", "-l"], "timeout_ms": 5}, "a.py")
_COMPUTER_MESSAGES = [
    *called(
        "c1",
        "computer",
        {"action": {"type": "click", "x": 1, "y": 2, "button": "left"}},
        "(image below)",
    ),
    image_after("c1", SHOT),
]
_SEARCH_MESSAGES = called(
    "c1",
    "tool_search",
    {"goal": "find a customer"},
    "These tools can be called now:\n- find",
)
_PROGRAM_MESSAGES: Messages = [
    {"role": "assistant", "content": "I ran this program:\n\ntext(1)"},
    {"role": "assistant", "content": "The program's result:\n\n1"},
]
_APPROVAL_MESSAGES = called(
    "mcpr_1", "crm__drop", '{"id":1}', "The user did not approve this call. Too risky."
)

SAMPLES: dict[str, tuple[list[Json], Messages]] = dict(
    [
        _listed(
            "message",
            {"role": "developer", "content": "Be brief."},
            {"role": "assistant", "content": "Let me see.", "phase": "commentary"},
            messages=[
                {"role": "developer", "content": "Be brief."},
                {"role": "assistant", "content": "Let me see."},
            ],
        ),
        _listed("function_call", *_FUNCTION, messages=_FUNCTION_MESSAGES),
        _listed("function_call_output", *_FUNCTION, messages=_FUNCTION_MESSAGES),
        _listed("custom_tool_call", *_CUSTOM, messages=_CUSTOM_MESSAGES),
        _listed("custom_tool_call_output", *_CUSTOM, messages=_CUSTOM_MESSAGES),
        _listed(
            "web_search_call",
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "bridges",
                    "sources": [{"type": "url", "url": "https://a.example"}],
                },
            },
            messages=called(
                "ws_1",
                "web_search",
                {"query": "bridges"},
                '{"sources":[{"type":"url","url":"https://a.example"}]}',
            ),
        ),
        _listed(
            "file_search_call",
            {
                "type": "file_search_call",
                "id": "fs_1",
                "status": "completed",
                "queries": ["a", "b"],
                "results": [{"file_id": "file_1", "filename": "a.md", "score": 0.5, "text": "A"}],
            },
            messages=called(
                "fs_1",
                "file_search",
                {"query": "a", "queries": ["a", "b"]},
                '[{"file_id":"file_1","filename":"a.md","score":0.5,"text":"A"}]',
            ),
        ),
        _listed(
            "code_interpreter_call",
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "container_id": "cntr_1",
                "code": "print(1)",
                "outputs": [{"type": "logs", "logs": "1"}, {"type": "image", "url": SHOT}],
            },
            messages=[
                *called("ci_1", "code_interpreter", {"code": "print(1)"}, "1"),
                image_after("ci_1", SHOT),
            ],
        ),
        _listed(
            "image_generation_call",
            {
                "type": "image_generation_call",
                "id": "ig_1",
                "status": "completed",
                "result": "AAAA",
                "revised_prompt": "a bridge",
                "output_format": "webp",
            },
            messages=[
                *called("ig_1", "image_generation", {"prompt": "a bridge"}, "The image was made:"),
                image_after("ig_1", "data:image/webp;base64,AAAA"),
            ],
        ),
        _listed(
            "mcp_list_tools",
            {
                "type": "mcp_list_tools",
                "id": "mcpl_1",
                "server_label": "crm",
                "tools": [{"name": "find", "input_schema": {}}],
            },
            messages=[],
        ),
        _listed(
            "mcp_call",
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "crm",
                "name": "find",
                "arguments": '{"id":1}',
                "output": "Ada",
                "error": None,
                "status": "completed",
            },
            messages=called("mcp_1", "crm__find", '{"id":1}', "Ada"),
        ),
        _listed("mcp_approval_request", *_APPROVAL, messages=_APPROVAL_MESSAGES),
        _listed("mcp_approval_response", *_APPROVAL, messages=_APPROVAL_MESSAGES),
        _listed("shell_call", *_SHELL, messages=_SHELL_MESSAGES),
        _listed("shell_call_output", *_SHELL, messages=_SHELL_MESSAGES),
        _listed("apply_patch_call", *_PATCH, messages=_PATCH_MESSAGES),
        _listed("apply_patch_call_output", *_PATCH, messages=_PATCH_MESSAGES),
        _listed("local_shell_call", *_LOCAL, messages=_LOCAL_MESSAGES),
        _listed("local_shell_call_output", *_LOCAL, messages=_LOCAL_MESSAGES),
        _listed("computer_call", *_COMPUTER, messages=_COMPUTER_MESSAGES),
        _listed("computer_call_output", *_COMPUTER, messages=_COMPUTER_MESSAGES),
        _listed("tool_search_call", *_SEARCH, messages=_SEARCH_MESSAGES),
        _listed("tool_search_output", *_SEARCH, messages=_SEARCH_MESSAGES),
        _listed(
            "additional_tools",
            {"type": "additional_tools", "role": "developer", "tools": []},
            messages=[],
        ),
        _listed("program", *_PROGRAM, messages=_PROGRAM_MESSAGES),
        _listed("program_output", *_PROGRAM, messages=_PROGRAM_MESSAGES),
        _listed(
            "agent_message",
            {
                "type": "agent_message",
                "id": "amsg_1",
                "author": "scout",
                "recipient": "main",
                "content": [
                    {"type": "input_text", "text": "Found it."},
                    {"type": "encrypted_content", "encrypted_content": "x"},
                ],
            },
            messages=[
                {
                    "role": "assistant",
                    "content": "[Message from scout to main, not from the user]\nFound it.\n"
                    "(a part of type encrypted_content cannot be read here)",
                }
            ],
        ),
    ]
)

REFUSED: dict[str, Json] = {
    "compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
    "context_compaction": {"type": "context_compaction", "encrypted_content": "x"},
    "compaction_trigger": {"type": "compaction_trigger"},
    "configuration_update": {"type": "configuration_update", "reasoning": {"effort": "low"}},
    "multi_agent_call": {"type": "multi_agent_call", "id": "x"},
    "multi_agent_call_output": {"type": "multi_agent_call_output", "id": "x"},
}
