"""Broken arguments, and those that do not fit their tool."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bascule.protocols.function import FunctionSpec
from bascule.testing import Call, Finish, Gate, ModelServer, Reply
from bascule.toolkit.arguments import ArgumentSchemas, ArgumentsSchema
from tests.conformance.asking import RUN, WEATHER, output_of
from tests.conformance.stream import check_answer, check_stream
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
REPAIRS = {"profile": "custom"}
AS_IT_COMES = {"profile": "vllm"}


async def called(
    *arguments: str, stream: bool = True, upstream: Json = REPAIRS, tool: Json = WEATHER
) -> Json:
    """The item of a call whose arguments came in these fragments."""
    reply = Reply(Call(tool["name"], list(arguments)))
    async with ModelServer(reply) as model, serving(model.url, upstream_options=upstream) as api:
        answer = await api.create(stream=stream, tools=[tool])
        response = check_stream(answer) if stream else check_answer(answer)
    (item,) = response["output"]
    return item


@pytest.mark.requirement("weak:arguments:repaired")
@pytest.mark.requirement("weak:arguments:deltas")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "broken",
    [
        '{"city": "Oslo"',
        "{'city': 'Oslo'}",
        '{"city": "Oslo",}',
        '{city: "Oslo"}',
        '```json\n{"city": "Oslo"}\n```',
    ],
)
async def test_broken_arguments_are_repaired(broken: str, stream: bool) -> None:
    half = len(broken) // 2
    item = await called(broken[:half], broken[half:], stream=stream)
    assert item["arguments"] == '{"city":"Oslo"}'
    assert item["status"] == "completed"


@pytest.mark.requirement("weak:arguments:repaired")
@pytest.mark.parametrize("valid", ['{"city": "Oslo" }', '{"town": 1}', "[1]", '"x"', "12"])
async def test_valid_json_is_never_changed(valid: str) -> None:
    assert (await called(valid))["arguments"] == valid


@pytest.mark.requirement("weak:arguments:as-written")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("broken", ['{"town": "Oslo"', "Oslo", '{"city": 12'])
async def test_what_does_not_fit_comes_back_as_it_was_written(broken: str, stream: bool) -> None:
    item = await called(broken[:3], broken[3:], stream=stream)
    assert item["arguments"] == broken


@pytest.mark.requirement("weak:arguments:as-written")
async def test_arguments_that_the_limit_cut_are_not_repaired() -> None:
    reply = Reply(Call("get_weather", '{"city": "Os'), Finish("length"))
    async with ModelServer(reply) as model, serving(model.url, upstream_options=REPAIRS) as api:
        response = check_stream(await api.create(stream=True, tools=[WEATHER]))
    (item,) = response["output"]
    assert (item["status"], item["arguments"]) == ("incomplete", '{"city": "Os')


@pytest.mark.requirement("weak:arguments:deltas")
async def test_without_the_flag_arguments_leave_as_they_come() -> None:
    reply = Reply(Call("get_weather", ['{"city"', ': "Oslo"']), Gate("more"), "")
    async with (
        ModelServer(reply) as model,
        serving(model.url, upstream_options=AS_IT_COMES) as api,
        api.open(tools=[WEATHER]) as pieces,
    ):
        seen = b""
        async for piece in pieces:
            seen += piece
            if b'{\\"city\\"' in seen:
                model.open("more")
    assert b"response.completed" in seen
    assert (await called('{"city": "Oslo"', upstream=AS_IT_COMES))["arguments"] == (
        '{"city": "Oslo"'
    )


@pytest.mark.requirement("weak:arguments:deltas")
async def test_text_and_free_text_are_not_held() -> None:
    """A custom tool reads broken JSON itself, while it is written."""
    reply = Reply("Hi", Call("run", ['{"input": "pri', "nt(1)"]), Gate("more"), Finish("stop"))
    async with (
        ModelServer(reply) as model,
        serving(model.url, upstream_options=REPAIRS) as api,
        api.open(tools=[RUN]) as pieces,
    ):
        seen = b""
        async for piece in pieces:
            seen += piece
            if b"nt(1)" in seen:
                model.open("more")
    assert b"response.completed" in seen


# --- calls of the gateway's own tools


async def looked_up(arguments: str, upstream: Json = AS_IT_COMES) -> tuple[Json, str, int]:
    """The public item, what the model was told, and how many calls ran."""
    executor = LookupExecutor(found)
    replies = [Reply(Call("lookup", arguments)), "Done."]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install(executor), upstream_options=upstream) as api,
    ):
        answer = await api.create(stream=True, tools=[TOOL])
        told = model.chats[1].messages[-1]
    assert answer.response["status"] == "completed"
    assert told["role"] == "tool"
    return answer.response["output"][0], told["content"], len(executor.calls)


@pytest.mark.requirement("tool:arguments:checked")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"query": 1}', "$.query"),
        ('{"query": "x"', "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
async def test_a_call_that_does_not_fit_does_not_run(arguments: str, said: str) -> None:
    item, told, runs = await looked_up(arguments)
    assert item["status"] == "failed"
    assert said in told
    assert runs == 0


@pytest.mark.requirement("tool:arguments:checked")
async def test_one_that_fits_runs_and_a_broken_one_runs_when_repaired() -> None:
    for arguments, upstream in (('{"query":"x"}', AS_IT_COMES), ('{"query":"x"', REPAIRS)):
        item, told, runs = await looked_up(arguments, upstream)
        assert item["status"] == "completed"
        assert told == 'found for {"query":"x"}'
        assert runs == 1


@pytest.mark.requirement("tool:arguments:checked")
async def test_a_faulty_call_does_not_keep_its_sibling_from_running() -> None:
    executor = LookupExecutor(found)
    calls = [Call("lookup", {"query": 1}, id="a"), Call("lookup", {"query": "x"}, id="b")]
    async with (
        ModelServer([Reply(*calls), "Done."]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        await api.create(tools=[TOOL])
        told = {m["tool_call_id"]: m["content"] for m in model.chats[1].messages[-2:]}
    assert "$.query" in told["a"]
    assert told["b"] == 'found for {"query":"x"}'
    assert len(executor.calls) == 1


# --- schemas


def schema(text: str) -> ArgumentsSchema:
    return ArgumentsSchema(FunctionSpec("f", None, Raw(text.encode())))


@pytest.mark.requirement("tool:arguments:schema-bounded")
@pytest.mark.parametrize(
    "text",
    [
        '{"$ref": "https://example.com/schema.json"}',
        '{"$ref": "file:///etc/passwd"}',
        '{"properties": {"a": {"$ref": "#/$defs/none"}}}',
        '{"type": "no such type"}',
        '{"properties": {"a": {"pattern": "("}}}',
        "",
    ],
)
def test_a_schema_that_is_none_checks_nothing_but_the_object(text: str) -> None:
    assert schema(text).fault('{"a": 1}') is None
    assert schema(text).fault("[]") is not None
    assert schema(text).repaired('{"a": 1') == '{"a":1}'


@pytest.mark.requirement("tool:arguments:schema-bounded")
@pytest.mark.parametrize(
    ("pattern", "decided"), [("^(?!x)(a|b|ab)*(?=c)$", False), ("^(a+)+$", True)]
)
def test_a_pattern_ends(pattern: str, decided: bool) -> None:
    """One that takes too many steps stops no call."""
    rule = {"type": "string", "pattern": pattern}
    checked = schema(msgspec.json.encode({"properties": {"a": rule}}).decode())
    fault = checked.fault(msgspec.json.encode({"a": "ab" * 5000 + "!"}).decode())
    assert (fault is not None) is decided
    if fault is not None:
        assert "$.a" in fault
        assert len(fault) < 500


@pytest.mark.requirement("tool:arguments:schema-bounded")
def test_schemas_are_compiled_once() -> None:
    schemas = ArgumentSchemas([FunctionSpec("f", None, Raw(b"{}"))])
    assert schemas.of("f") is schemas.of("f")
    assert schemas.of("g") is None


@pytest.mark.requirement("tool:arguments:schema-bounded")
async def test_a_client_may_declare_a_schema_that_is_none() -> None:
    tool = {**WEATHER, "parameters": {"$ref": "https://example.com/x"}}
    assert (await called('{"city": "Oslo"', tool=tool))["arguments"] == '{"city":"Oslo"}'


@pytest.mark.requirement("weak:arguments:as-written")
def test_a_very_long_text_is_left_alone() -> None:
    assert schema('{"type":"object"}').repaired('{"a": "' + "x" * 70_000) is None


@pytest.mark.requirement("weak:arguments:repaired")
async def test_repaired_arguments_are_those_of_the_next_turn() -> None:
    replies = [Reply(Call("get_weather", '{"city": "Oslo"')), "Sunny."]
    async with ModelServer(replies) as model, serving(model.url, upstream_options=REPAIRS) as api:
        first = (await api.create(tools=[WEATHER])).response
        (call,) = first["output"]
        await api.create(tools=[WEATHER], previous_response_id=first["id"], input=[output_of(call)])
        said = model.chats[1].messages[1]["tool_calls"][0]["function"]
    assert said["arguments"] == '{"city":"Oslo"}'
