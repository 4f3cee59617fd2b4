"""`shell` and `local_shell` before a server that knows functions only: what the model is told, and how
its calls come back, well written or not."""

from typing import Any

import pytest

from bascule.testing import Call, Finish, Reply, Text
from tests.conformance.asking import WEATHER, gateway, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import Answer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

SHELL: Json = {"type": "shell", "environment": {"type": "local"}}
LOCAL: Json = {"type": "local_shell"}


async def called(
    arguments: Any, tool: Json = SHELL, *more: Any, stream: bool = True, split: int = 1
) -> tuple[Answer, list[Json]]:
    """The answer to a call, and the later requests that it took."""
    reply = Reply(Call(tool["type"], arguments, id="call_1", split=split), *more)
    async with gateway([reply, "I see."]) as (api, model):
        answer = await api.create(tools=[tool], stream=stream)
        return answer, [chat.json for chat in model.chats[1:]]


def commands_of(answer: Answer) -> list[str]:
    response = check_stream(answer)
    (item,) = response["output"]
    assert (item["type"], item["status"]) == ("shell_call", "completed")
    return item["action"]["commands"]


# --- declared


@pytest.mark.requirement("tool:built-in:declared")
async def test_the_model_is_told_of_functions() -> None:
    async with gateway() as (api, model):
        check_answer(await api.create(tools=[SHELL, LOCAL]))
        shell, local = [tool["function"] for tool in model.chats[0].tools]
    assert (shell["name"], local["name"]) == ("shell", "local_shell")
    assert shell["description"]
    assert local["description"]
    assert list(shell["parameters"]["properties"]) == [
        "commands",
        "timeout_ms",
        "max_output_length",
    ]
    assert list(local["parameters"]["properties"]) == [
        *("command", "env", "timeout_ms", "user", "working_directory"),
    ]
    assert shell["parameters"]["required"] == ["commands"]


@pytest.mark.requirement("tool:built-in:declared")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tool", [{"type": "shell"}, {"type": "shell", "environment": None}, SHELL])
async def test_a_shell_without_a_container_is_the_clients(tool: Json, stream: bool) -> None:
    answer, _ = await called({"commands": ["ls"]}, tool, stream=stream)
    response = check_stream(answer) if stream else check_answer(answer)
    assert response["tools"] == [tool]
    assert "x-bascule-ignored" not in answer.headers
    (item,) = response["output"]
    assert item.pop("id").startswith("sh_")
    local = {"environment": {"type": "local"}} if tool.get("environment") else {}
    assert item == {
        "type": "shell_call",
        "status": "completed",
        "call_id": "call_1",
        "action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": None},
        **local,
    }


@pytest.mark.requirement("tool:shell:container")
@pytest.mark.parametrize(
    "environment",
    [{"type": "container_auto"}, {"type": "container_reference", "container_id": "cntr_1"}],
)
async def test_a_shell_in_a_container_is_not_offered(environment: Json) -> None:
    tool = {"type": "shell", "environment": environment}
    async with gateway() as (api, model):
        answer = await api.create(tools=[tool, WEATHER])
        names = [tool["function"]["name"] for tool in model.chats[0].tools]
        forced = await api.create(tools=[tool], tool_choice={"type": "shell"})
    assert answer.status == 200
    assert answer.response["tools"][0] == tool
    assert names == ["get_weather"]
    assert answer.headers["x-bascule-ignored"] == "tools[0]"
    assert (forced.status, forced.error["param"]) == (400, "tool_choice")


@pytest.mark.requirement("choice:named:built-in")
@pytest.mark.parametrize(
    ("tool", "choice", "name"),
    [
        (SHELL, "shell", "shell"),
        (LOCAL, "local_shell", "local_shell"),
        ({"type": "apply_patch"}, "apply_patch", "apply_patch"),
        ({"type": "computer"}, "computer", "computer"),
        (
            {
                "type": "computer_use_preview",
                "display_width": 8,
                "display_height": 6,
                "environment": "mac",
            },
            "computer_use_preview",
            "computer",
        ),
    ],
)
async def test_a_choice_forces_the_function(tool: Json, choice: str, name: str) -> None:
    async with gateway() as (api, model):
        answer = await api.create(tools=[tool, WEATHER], tool_choice={"type": choice})
        sent = model.chats[0].json["tool_choice"]
    assert check_answer(answer)["tool_choice"] == {"type": choice}
    assert sent == {"type": "function", "function": {"name": name}}


# --- streams


@pytest.mark.requirement("stream:shell:order")
@pytest.mark.parametrize("split", [1, 3, 1000])
async def test_commands_stream_as_they_are_written(split: int) -> None:
    written = ["cd /tmp && ls", 'echo "ä🙂"\n', ""]
    answer, _ = await called({"commands": written, "timeout_ms": 500}, split=split)
    assert commands_of(answer) == written
    types = [kind for kind in answer.types if kind.startswith(("shell", "output_item"))]
    assert types[:2] == ["output_item.added", "shell_call_command.added"]
    assert types[-1] == "output_item.done"
    item = answer.response["output"][0]
    assert item["action"]["timeout_ms"] == 500
    done = [event["command"] for event in answer.of_type("shell_call_command.done")]
    assert done == written
    if split == 1000:
        assert len(answer.of_type("shell_call_command.delta")) > 10


@pytest.mark.requirement("stream:shell:order")
async def test_a_command_is_seen_before_it_is_whole() -> None:
    fragments = ['{"comm', 'ands": ["ls -', 'l", "pw', 'd"]}']
    answer, _ = await called(fragments)
    assert commands_of(answer) == ["ls -l", "pwd"]
    deltas = [
        (event["command_index"], event["delta"])
        for event in answer.of_type("shell_call_command.delta")
    ]
    assert deltas == [(0, "ls -"), (0, "l"), (1, "pw"), (1, "d")]
    assert "item_id" not in answer.of_type("shell_call_command.added")[0]


@pytest.mark.requirement("stream:local-shell:order")
async def test_a_local_shell_call_is_added_and_done() -> None:
    arguments = {"command": ["ls", "-l"], "env": {"A": "b"}, "timeout_ms": 5, "user": "me"}
    answer, _ = await called(arguments, LOCAL, split=7)
    (item,) = check_stream(answer)["output"]
    assert item.pop("id").startswith("lsh_")
    assert item == {
        "type": "local_shell_call",
        "status": "completed",
        "call_id": "call_1",
        "action": {
            "type": "exec",
            "command": ["ls", "-l"],
            "env": {"A": "b"},
            "timeout_ms": 5,
            "user": "me",
        },
    }
    assert [kind for kind in answer.types if "item" in kind] == [
        *("output_item.added", "output_item.done"),
    ]


# --- and back


@pytest.mark.requirement("tool:built-in:round-trip")
@pytest.mark.parametrize("stored", [False, True])
async def test_calls_go_to_the_client_and_outputs_to_the_model(stored: bool) -> None:
    first = Reply(
        Call("shell", {"commands": ["ls", "pwd"]}, id="call_1"),
        Call("local_shell", {"command": ["id"]}, id="call_2"),
    )
    async with gateway([first, "Done."]) as (api, model):
        response = check_answer(await api.create(tools=[SHELL, LOCAL], store=stored))
        shell, local = response["output"]
        ended = {"type": "exit", "exit_code": 1}
        printed = [
            {"stdout": "a.py", "stderr": "", "outcome": ended},
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
        ]
        said = {**output_of(shell, printed), "max_output_length": None, "status": "completed"}
        items: list[Json] = [
            {"type": "local_shell_call_output", "id": local["call_id"], "output": "me"},
            said,
        ]
        fields: Json = {"previous_response_id": response["id"]}
        if not stored:
            items = [{"role": "user", "content": "Hello"}, *response["output"], *items]
            fields = {}
        follow = await api.create(tools=[SHELL, LOCAL], input=items, store=stored, **fields)
        assert text_of(check_answer(follow)) == "Done."
        messages = model.chats[1].messages
    calls = {c["id"]: c["function"] for c in messages[1]["tool_calls"]}
    assert calls["call_1"] == {"name": "shell", "arguments": '{"commands":["ls","pwd"]}'}
    assert calls["call_2"] == {"name": "local_shell", "arguments": '{"command":["id"]}'}
    outputs = {m["tool_call_id"]: m["content"] for m in messages[2:]}
    assert outputs == {"call_1": "exit code 1\nstdout:\na.py\n\ntimed out", "call_2": "me"}


@pytest.mark.requirement("tool:built-in:pending")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (SHELL, {"commands": ["ls"]}),
        (LOCAL, {"command": ["ls"]}),
        ({"type": "apply_patch"}, {"operation": {"type": "delete_file", "path": "a"}}),
        ({"type": "computer"}, {"actions": [{"type": "wait"}]}),
    ],
)
async def test_a_call_must_be_answered(tool: Json, arguments: Json) -> None:
    async with gateway(Reply(Call(tool["type"], arguments, id="call_1"))) as (api, model):
        response = check_answer(await api.create(tools=[tool]))
        answer = await api.create(
            tools=[tool], previous_response_id=response["id"], input="Never mind"
        )
        assert len(model.chats) == 1
    assert (answer.status, answer.error["param"]) == (400, "input")
    assert answer.error["message"] == "No tool output found for function call call_1."


# --- arguments of other shapes


@pytest.mark.requirement("tool:built-in:understood")
@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        ('{"commands":"ls"}', ["ls"]),
        ('{"commands":[["echo","a b"],["ls"]]}', ["echo 'a b'", "ls"]),
        ('{"commands":["a"]}{"commands":["b"]}', ["a", "b"]),
        ('{"timeout_ms":"5","commands":["a"]}', ["a"]),
        ('{"timeout_ms":"soon","max_output_length":-1,"commands":["a"]}', ["a"]),
        ('{"commands":["grep \\d \\\\d"]}', ["grep \\d \\d"]),
        ('{"commands":["two\nlines"]}', ["two\nlines"]),
        ('{"extra":{"commands":["x"]},"commands":["a"]}', ["a"]),
    ],
)
@pytest.mark.parametrize("split", [1, 4])
async def test_what_can_mean_one_thing(arguments: str, commands: list[str], split: int) -> None:
    answer, _ = await called(arguments, split=split)
    assert commands_of(answer) == commands


@pytest.mark.requirement("tool:built-in:understood")
@pytest.mark.parametrize(
    ("arguments", "command", "more"),
    [
        ('{"command":"ls | wc"}', ["bash", "-lc", "ls | wc"], {}),
        ('{"command":["ls"],"timeout_ms":2.0}', ["ls"], {"timeout_ms": 2}),
        ('{"command":["ls"],"env":null,"user":""}', ["ls"], {}),
    ],
)
async def test_local_commands_of_other_shapes(
    arguments: str, command: list[str], more: Json
) -> None:
    answer, _ = await called(arguments, LOCAL)
    (item,) = check_stream(answer)["output"]
    assert item["action"] == {"type": "exec", "command": command, "env": {}, **more}


BROKEN: list[tuple[Json, str, str]] = [
    (SHELL, "{}", "`commands` must be"),
    (SHELL, '{"commands":[]}', "`commands` is empty."),
    (SHELL, '{"commands":5}', "`commands` must be"),
    (SHELL, "[]", "must be a JSON object"),
    (SHELL, "ls -l", "not valid JSON"),
    (SHELL, '{"commands"', "not valid JSON"),
    (LOCAL, "{}", "missing required field `command`"),
    (LOCAL, '{"command":[]}', "`command` is empty."),
    (LOCAL, '{"command":["a"],"env":{"A":[]}}', "Expected `str`"),
    (LOCAL, '{"command":["a"]}{"command":["b"]}', "must be one JSON object"),
    (LOCAL, '{"command":["a"]', "not valid JSON"),
]


@pytest.mark.requirement("tool:built-in:asked-again")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("tool", "arguments", "fault"), BROKEN)
async def test_the_model_is_told_what_makes_no_sense(
    tool: Json, arguments: str, fault: str, stream: bool
) -> None:
    answer, later = await called(arguments, tool, stream=stream)
    response = check_stream(answer) if stream else check_answer(answer)
    assert [item["type"] for item in response["output"]] == ["message"]
    assert b"_call" not in answer.body.replace(b"tool_calls", b"")
    call, told = later[0]["messages"][-2:]
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_1")
    assert fault in told["content"]
    assert call["tool_calls"][0]["function"]["arguments"].startswith("{")


@pytest.mark.requirement("tool:built-in:broken-when-shown")
@pytest.mark.parametrize(
    "arguments",
    [
        '{"commands":["rm -rf /home/"a b"/c"]}',
        '{"commands":["ls", 5]}',
        '{"commands":["ls", ["a"]]}',
        '{"commands":["ls"]',
        '{"commands":["ls"]} and then',
        '{"commands":["ls"],"commands":["pwd"]}',
    ],
)
async def test_a_call_that_breaks_while_it_is_shown_fails_the_turn(arguments: str) -> None:
    answer, asked = await called(arguments, split=5)
    response = check_stream(answer, fails=True)
    (item,) = response["output"]
    assert (item["type"], item["status"]) == ("shell_call", "incomplete")
    assert response["error"]["code"] == "invalid_tool_call"
    assert "'shell'" in response["error"]["message"]
    assert asked == []


@pytest.mark.requirement("tool:built-in:broken-when-shown")
async def test_items_beside_a_broken_call_are_ended_and_the_turn_fails() -> None:
    more = (Call("shell", {"commands": ["pwd"]}, id="call_2"), Text("Bye"))
    answer, asked = await called('{"commands":["ls", 5]', SHELL, *more, split=5)
    assert answer.types[-2:] == ["error", "failed"]
    assert len(answer.of_type("output_item.added")) == len(answer.of_type("output_item.done"))
    broken, *others = answer.response["output"]
    assert (broken["call_id"], broken["status"]) == ("call_1", "incomplete")
    assert {item["status"] for item in others} <= {"completed"}
    assert asked == []


@pytest.mark.requirement("tool:built-in:broken-when-shown")
async def test_a_whole_answer_with_a_broken_call_is_an_error() -> None:
    answer, _ = await called('{"commands":["ls", 5]}', stream=False)
    assert (answer.status, answer.error["code"]) == (502, "invalid_tool_call")


@pytest.mark.requirement("stream:truncated:built-in")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("tool", "arguments", "action"),
    [
        (SHELL, '{"commands":["ls","pw', {"commands": ["ls", "pw"]}),
        (SHELL, '{"commands":["ls\\u00', {"commands": ["ls"]}),
        (SHELL, '{"comm', {"commands": []}),
        (LOCAL, '{"command":["ls', {"command": []}),
    ],
)
async def test_a_cut_call_is_incomplete(
    tool: Json, arguments: str, action: Json, stream: bool
) -> None:
    answer, _ = await called(arguments, tool, Finish("length"), stream=stream)
    response = check_stream(answer) if stream else check_answer(answer)
    assert response["status"] == "incomplete"
    (item,) = response["output"]
    assert item["status"] == "incomplete"
    assert item["action"].items() >= action.items()
