"""Items become calls once, calls reach their tool, and each has exactly one answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from dirty_equals import IsStr

from bascule.agent.calls import (
    OUTPUTS,
    CustomPayload,
    FunctionPayload,
    LocalShellPayload,
    MalformedPayload,
    McpPayload,
    PatchPayload,
    ShellPayload,
    ToolKind,
    ToolName,
    ToolOutput,
    ToolSearchPayload,
    UnifiedExecPayload,
    read_call,
)
from bascule.agent.events import ToolEnded
from bascule.agent.handler import (
    Exposure,
    FatalFault,
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
)
from bascule.agent.handler import function as declared
from bascule.agent.history import History, message
from bascule.agent.registry import ToolRegistryBuilder
from bascule.agent.router import ToolRouter
from bascule.agent.turn import TurnContext
from bascule.protocols.responses.items import Part
from tests.agent.world import Json, custom, function, world

pytestmark = pytest.mark.anyio


class Fake(LocalHandler):
    """Does what a test says."""

    def __init__(
        self,
        name: str,
        act: Any = "done",
        *,
        space: str | None = None,
        parallel: bool = False,
        kind: ToolKind = ToolKind.FUNCTION,
        exposure: Exposure = Exposure.DIRECT,
    ) -> None:
        self.name = ToolName(space, name)
        self.parallel = parallel  # type: ignore[misc]
        self.exposure = exposure
        self._act: Any = act
        self._kind = kind

    def spec(self) -> ToolSpec:
        return declared(self.name.name, "A fake.", {"type": "object", "properties": {}})

    def kind(self) -> ToolKind:
        return self._kind

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        act: Any = self._act
        if callable(act):
            act = await cast("Callable[[ToolInvocation], Awaitable[Any]]", act)(invocation)
        if isinstance(act, BaseException):
            raise act
        return act if isinstance(act, ToolOutput) else ToolOutput(content=act)


# --- items to calls

KINDS: list[tuple[Json, ToolName, object]] = [
    (function("plain", "{}"), ToolName(None, "plain"), FunctionPayload("{}")),
    (function("plain", "{}", namespace="functions_"), ToolName("functions_", "plain"), FunctionPayload("{}")),
    (custom("patch", "text"), ToolName(None, "patch"), CustomPayload("text")),
    (function("exec_command", "{}"), ToolName(None, "exec_command"), UnifiedExecPayload("{}")),
    (function("write_stdin", "{}"), ToolName(None, "write_stdin"), UnifiedExecPayload("{}")),
    (function("look", "{}", namespace="mcp__notes"), ToolName("mcp__notes", "look"), McpPayload("{}", "mcp__notes", "look")),
    (
        {"type": "local_shell_call", "call_id": "call_1", "action": {"type": "exec", "command": ["ls"], "timeout_ms": 5}},
        ToolName(None, "local_shell"), LocalShellPayload(["ls"], timeout_ms=5),
    ),
    (
        {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"], "max_output_length": None}},
        ToolName(None, "shell"), ShellPayload(["ls"]),
    ),
    (
        {"type": "apply_patch_call", "call_id": "call_1", "operation": {"type": "delete_file", "path": "a"}},
        ToolName(None, "apply_patch"), PatchPayload("delete_file", "a"),
    ),
    (
        {"type": "tool_search_call", "call_id": "call_1", "execution": "client", "arguments": {"query": "q", "limit": 3}},
        ToolName(None, "tool_search"), ToolSearchPayload("q", 3),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "name", "payload"),
    KINDS,
    ids=[str(k[0]["type"]) + str(k[0].get("name", "")) for k in KINDS],
)
@pytest.mark.requirement("agent:items")
async def test_each_kind_of_item_becomes_a_call(
    tmp_path: Path, item: Json, name: ToolName, payload: object
) -> None:
    handlers = [Fake("look", space="mcp__notes", kind=ToolKind.MCP)]
    async with world(tmp_path, handlers=handlers) as it:
        call = ToolRouter(it.session.registry).from_turn(msgspec.json.encode(item))
        assert call is not None
        assert (call.name, call.call_id, call.payload) == (name, "call_1", payload)
        assert call.item_type == item["type"]


@pytest.mark.parametrize(
    "type_", ["message", "reasoning", "web_search_call", "mcp_call", "something_new"]
)
def test_what_is_no_call_of_ours_is_none(type_: str) -> None:
    assert read_call(msgspec.json.encode({"type": type_, "id": "x"})) is None


def test_a_call_without_its_own_id_is_known_by_its_items() -> None:
    item = {"type": "local_shell_call", "id": "lsh_1", "action": {"command": ["ls"]}}
    call = read_call(msgspec.json.encode(item))
    assert call is not None
    assert call.call_id == "lsh_1"


@pytest.mark.parametrize("type_", ["local_shell_call", "shell_call", "apply_patch_call"])
async def test_a_call_that_makes_no_sense_is_answered(tmp_path: Path, type_: str) -> None:
    async with world(tmp_path) as it:
        item: Json = {"type": type_, "call_id": "call_1", "action": {}, "operation": {}}
        call = read_call(msgspec.json.encode(item))
        assert call is not None
        assert isinstance(call.payload, MalformedPayload)
        [output] = await it.call(item)
        assert output["type"] == OUTPUTS[type_]
        assert "failed to parse function arguments" in str(output["output"])


# --- calls to tools


@pytest.mark.requirement("agent:outcomes")
async def test_success_errors_and_faults(tmp_path: Path) -> None:
    handlers = [
        Fake("good", "fine"),
        Fake("told", ToolFault("that was wrong")),
        Fake("broken", ValueError("a secret")),
        Fake("parts", ToolOutput(content=[Part("input_text", text="t")])),
    ]
    async with world(tmp_path, handlers=handlers) as it:
        names = ["good", "told", "broken", "parts", "unknown"]
        outputs = await it.call(*(function(name, call_id=name) for name in names))
        assert [output["call_id"] for output in outputs] == names
        assert [output["output"] for output in outputs] == [
            "fine",
            "that was wrong",
            "The tool failed: ValueError.",
            [{"type": "input_text", "text": "t"}],
            "unsupported call: unknown",
        ]
        assert [event.outcome for event in it.of(ToolEnded)] == [
            "completed",
            "failed",
            "failed",
            "completed",
        ]


@pytest.mark.requirement("agent:fatal")
async def test_a_fatal_fault_ends_the_turn_and_its_call_is_answered(tmp_path: Path) -> None:
    from tests.agent.world import said, scripted

    script = scripted([function("bad")], [said("never asked")])
    async with world(tmp_path, script, handlers=[Fake("bad", FatalFault("no disk"))]) as it:
        turn = await it.session.turn("go")
        assert (turn.status, turn.error, turn.rounds) == ("failed", "no disk", 1)
        last = msgspec.json.decode(it.session.history.items[-1])
        assert (last["type"], last["output"]) == ("function_call_output", "aborted")


@pytest.mark.requirement("agent:mismatch")
async def test_a_tool_called_in_another_shape_is_explained(tmp_path: Path) -> None:
    async with world(tmp_path, tools={"apply_patch": "custom"}) as it:
        [first] = await it.call(custom("exec_command", "ls"))
        assert first == {
            "type": "custom_tool_call_output", "call_id": "call_1",
            "output": "exec_command is a function: call it with JSON arguments (this was a custom tool call)",
        }  # fmt: skip
        [second] = await it.call(function("apply_patch", "*** Begin Patch"))
        assert second["output"] == IsStr(
            regex="failed to parse function arguments: JSON is malformed.*"
        )
        shell_call = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}}
        [third] = await it.call(shell_call)
        assert third["output"][0]["stderr"] == "unsupported call: shell"


@pytest.mark.requirement("agent:names")
async def test_names_are_pairs(tmp_path: Path) -> None:
    handlers = [Fake("run", "one", space="a"), Fake("run", "two", space="b"), Fake("run", "three")]
    async with world(tmp_path, handlers=handlers) as it:
        calls = [
            function("run", namespace="a"), function("run", namespace="b"), function("run"),
            function("a__run"), function("run", namespace="c"),
        ]  # fmt: skip
        outputs = await it.call(*calls)
        assert [o["output"] for o in outputs] == [
            "one",
            "two",
            "three",
            "one",
            "unsupported call: crun",
        ]


def test_the_first_tool_of_a_name_counts() -> None:
    builder = ToolRegistryBuilder()
    assert builder.add(Fake("run", "one"))
    assert not builder.add(Fake("run", "two"))
    assert [handler.name.name for handler in builder.handlers] == ["run"]


@pytest.mark.requirement("agent:parallel")
async def test_one_that_is_not_parallel_waits_and_holds_up(tmp_path: Path) -> None:
    seen: list[str] = []

    def noting(name: str, seconds: float) -> Any:
        async def act(invocation: ToolInvocation) -> str:
            seen.append(f"{name} begins")
            await asyncio.sleep(seconds)
            seen.append(f"{name} ends")
            return name

        return act

    handlers = [
        Fake("a", noting("a", 0.2), parallel=True),
        Fake("b", noting("b", 0.1), parallel=True),
        Fake("alone", noting("alone", 0.1)),
        Fake("c", noting("c", 0.0), parallel=True),
    ]
    async with world(tmp_path, handlers=handlers) as it:
        outputs = await it.call(*(function(name) for name in ("a", "b", "alone", "c")))
        assert [output["output"] for output in outputs] == ["a", "b", "alone", "c"]
    assert seen == [
        *("a begins", "b begins", "b ends", "a ends"),
        *("alone begins", "alone ends", "c begins", "c ends"),
    ]


@pytest.mark.requirement("agent:cancelled")
async def test_what_is_cancelled_says_so(tmp_path: Path) -> None:
    async def forever(invocation: ToolInvocation) -> str:
        await asyncio.sleep(60)
        return "never"

    async def quick(invocation: ToolInvocation) -> str:
        return "done"

    handlers = [
        Fake("quick", quick, parallel=True),
        Fake("slow", forever, parallel=True),
        Fake("waiting", "never"),
    ]
    async with world(tmp_path, handlers=handlers) as it:
        turn = TurnContext(it.session)
        router = ToolRouter(it.session.registry)
        pending = [
            it.session.registry.dispatch(call, turn)
            for name in ("quick", "slow", "waiting")
            if (call := router.from_turn(msgspec.json.encode(function(name, call_id=name))))
            is not None
        ]
        await asyncio.sleep(0.15)
        began = time.monotonic()
        await turn.cancel()
        outputs = [msgspec.json.decode(await one)["output"] for one in pending]
        assert outputs[0] == "done"
        assert outputs[1:] == [IsStr(regex=r"aborted by user after 0\.\ds")] * 2
        assert time.monotonic() - began < 1
        outcomes = {event.call_id: event.outcome for event in it.of(ToolEnded)}
        assert outcomes == {"quick": "completed", "slow": "aborted"}


# --- the list of the prompt


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ({}, ["exec_command", "write_stdin", "apply_patch", "view_image", "update_plan"]),
        ({"shell": "shell", "plan": False}, ["shell", "apply_patch", "view_image"]),
        ({"shell": "hosted", "apply_patch": "hosted"}, ["shell", "apply_patch", "view_image", "update_plan"]),
        ({"shell": "local_shell", "view_image": False}, ["local_shell", "apply_patch", "update_plan"]),
        ({"shell": "none", "apply_patch": "none", "web_search": True}, ["view_image", "update_plan", "web_search"]),
    ],
)  # fmt: skip
@pytest.mark.requirement("agent:specs")
async def test_what_is_enabled_is_declared_and_registered(
    tmp_path: Path, tools: Json, names: list[str]
) -> None:
    async with world(tmp_path, tools=tools) as it:
        registry = it.session.registry
        declared = [spec.declaration for spec in registry.iter_specs()]
        assert [d.get("name") or d["type"] for d in declared] == names
        assert all(registry.find(ToolName(None, name)) is not None for name in names)
        assert msgspec.json.decode(it.session.request())["tools"] == declared
        implicit = {handler.name.name for handler in registry.handlers.values()} - set(names)
        assert implicit == (
            set() if tools.get("shell") in ("local_shell", "none") else {"local_shell"}
        )


async def test_tools_of_a_namespace_are_declared_together(tmp_path: Path) -> None:
    handlers = [
        Fake("one", space="a"),
        Fake("two", space="a"),
        Fake("off", space="a", exposure=Exposure.HIDDEN),
    ]
    async with world(tmp_path, handlers=handlers) as it:
        [space] = [
            s.declaration
            for s in it.session.registry.iter_specs()
            if s.declaration["type"] == "namespace"
        ]
        assert space["name"] == "a"
        assert [tool["name"] for tool in space["tools"]] == ["one", "two"]
        [output] = await it.call(function("off", namespace="a"))
        assert output["output"] == "done"


# --- histories


@pytest.mark.requirement("agent:repair")
def test_orphan_calls_are_answered_with_aborted() -> None:
    items = [item for item, _, _ in KINDS]
    calls = [{**item, "call_id": f"call_{n}"} for n, item in enumerate(items)]
    answered = {"type": "function_call_output", "call_id": "call_0", "output": "x"}
    history = History(
        [message("user", "hello"), *map(msgspec.json.encode, calls), msgspec.json.encode(answered)]
    )
    added = [msgspec.json.decode(item) for item in history.repair()]
    assert [item["call_id"] for item in added] == [f"call_{n}" for n in range(1, len(calls))]
    assert all("aborted" in str(item) or item["type"] == "tool_search_output" for item in added)
    assert history.repair() == []
    whole = msgspec.json.decode(history.encoded())
    assert len(whole) == len(history) == 1 + len(calls) + 1 + len(added)
