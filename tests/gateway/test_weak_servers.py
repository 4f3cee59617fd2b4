"""What llama-server and vLLM do on Chat Completions, as a client of the gateway sees it."""

from typing import Any

import pytest

from bascule.testing import Call, Data, ModelServer, Reply, StreamError, Text, weak
from tests.conformance.asking import TIME, WEATHER, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import Answer, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
TOOLS = [WEATHER, TIME]

SERVERS = {"llama_cpp": weak.llama_server, "vllm": weak.vllm}
both_servers = pytest.mark.parametrize("profile", SERVERS)
both_ways = pytest.mark.parametrize("stream", [True, False])


async def asked(profile: str, script: Any, *, stream: bool, **fields: Any) -> Answer:
    server: ModelServer = SERVERS[profile](script)
    options = {"profile": profile}
    async with server as model, serving(model.url, upstream_options=options) as api:
        body: Json = {"tools": TOOLS, **fields}
        return await api.create(stream=stream, **body)


def checked(answer: Answer, *, stream: bool) -> Json:
    return check_stream(answer) if stream else check_answer(answer)


@pytest.mark.requirement("weak:servers")
@both_ways
async def test_an_unknown_model_is_served_or_refused_as_the_server_does(stream: bool) -> None:
    served = await asked("llama_cpp", "Hi.", stream=stream, model="no-such-model")
    response = checked(served, stream=stream)
    assert response["model"] == "no-such-model"
    assert text_of(response) == "Hi."
    refused = await asked("vllm", "Hi.", stream=stream, model="no-such-model")
    assert refused.status == 404
    assert "no-such-model" in refused.error["message"]


@pytest.mark.requirement("weak:servers")
@both_ways
@pytest.mark.parametrize("status", [400, 404, 500])
async def test_an_integer_code_is_no_code(status: int, stream: bool) -> None:
    answer = await asked("llama_cpp", weak.integer_code(status), stream=stream)
    assert answer.status == status
    assert not isinstance(answer.error["code"], int)
    assert answer.error["message"] == "'messages' is required"


@pytest.mark.requirement("weak:servers")
@both_servers
@both_ways
async def test_call_ids_are_those_of_the_server(profile: str, stream: bool) -> None:
    reply = Reply(Call("get_weather", {"city": "Oslo"}, split=3))
    server: ModelServer = SERVERS[profile]([reply, "Sunny."])
    options = {"profile": profile}
    async with server as model, serving(model.url, upstream_options=options) as api:
        first = checked(await api.create(stream=stream, tools=TOOLS), stream=stream)
        (call,) = first["output"]
        assert call["arguments"] == '{"city":"Oslo"}'
        follow: Json = {"previous_response_id": first["id"], "input": [output_of(call, "sun")]}
        second = await api.create(stream=stream, tools=TOOLS, **follow)
        assert text_of(checked(second, stream=stream)) == "Sunny."
        said, result = model.chats[1].messages[1:]
    assert said["tool_calls"][0]["id"] == result["tool_call_id"] == call["call_id"]


@pytest.mark.requirement("weak:servers")
@both_ways
async def test_repeated_call_ids_are_told_apart(stream: bool) -> None:
    reply = weak.repeated_ids("get_weather", "get_time")
    server = weak.llama_server([reply, "Done."])
    async with server as model, serving(model.url) as api:
        first = checked(await api.create(stream=stream, tools=TOOLS), stream=stream)
        ids = [call["call_id"] for call in first["output"]]
        assert len(set(ids)) == 2
        outputs = [output_of(call, call["name"]) for call in first["output"]]
        second = await api.create(
            stream=stream, tools=TOOLS, previous_response_id=first["id"], input=outputs
        )
        assert text_of(checked(second, stream=stream)) == "Done."
        results = {m["tool_call_id"]: m["content"] for m in model.chats[1].messages[2:]}
    assert results == dict(zip(ids, ["get_weather", "get_time"], strict=True))


@pytest.mark.requirement("weak:servers")
@both_servers
@pytest.mark.parametrize("layout", ["joined", "name_first", "name_alone", "name_last"])
@pytest.mark.parametrize("split", [1, 4])
async def test_fragments_of_all_shapes(profile: str, layout: Any, split: int) -> None:
    call = Call("get_weather", {"city": "Oslo"}, layout=layout, split=split)
    answer = await asked(profile, Reply(call), stream=True)
    (item,) = check_stream(answer)["output"]
    assert (item["name"], item["arguments"]) == ("get_weather", '{"city":"Oslo"}')


@pytest.mark.requirement("weak:servers")
@both_servers
@both_ways
async def test_a_tool_that_was_never_declared(profile: str, stream: bool) -> None:
    answer = await asked(profile, weak.undeclared_call(), stream=stream)
    (call,) = checked(answer, stream=stream)["output"]
    assert (call["type"], call["name"]) == ("function_call", "translate")


@pytest.mark.requirement("weak:servers")
@both_ways
async def test_an_http_500_for_parallel_calls_is_told_as_it_is(stream: bool) -> None:
    answer = await asked("llama_cpp", weak.parallel_calls_fail(), stream=stream)
    assert answer.status == 500
    assert answer.error["type"] == "server_error"
    assert answer.error["message"] == "Failed to parse tool call arguments as JSON"


@pytest.mark.requirement("weak:servers")
@both_ways
async def test_one_of_several_calls(stream: bool) -> None:
    reply = weak.one_of_several(Call("get_weather", {"city": "Oslo"}), Call("get_time", {}))
    (call,) = checked(await asked("vllm", reply, stream=stream), stream=stream)["output"]
    assert call["name"] == "get_weather"


@pytest.mark.requirement("weak:servers")
@both_servers
async def test_a_call_that_is_repeated_after_its_result(profile: str) -> None:
    rule = weak.calls_again("get_weather", {"city": "Oslo"}, times=1)
    server: ModelServer = SERVERS[profile](rule)
    options = {"profile": profile}
    async with server as model, serving(model.url, upstream_options=options) as api:
        response = check_answer(await api.create(tools=TOOLS))
        seen: list[str] = []
        while response["output"][0]["type"] == "function_call":
            (call,) = response["output"]
            seen.append(call["call_id"])
            more: Json = {"previous_response_id": response["id"], "input": [output_of(call)]}
            response = check_answer(await api.create(tools=TOOLS, **more))
    assert len(seen) == 2
    assert text_of(response) == "Here is what the tool said."


@pytest.mark.requirement("weak:servers")
@both_servers
async def test_a_server_that_is_still_loading(profile: str) -> None:
    options = {"profile": profile}
    server = weak.slow_start("Hi.", checks=1)
    async with server as model, serving(model.url, upstream_options=options) as api:
        assert (await api.send("GET", "/health")).status == 200
        answer = await api.create()
    assert answer.status == 503


@pytest.mark.requirement("weak:servers")
@both_servers
@both_ways
async def test_output_that_no_parser_understands_is_text(profile: str, stream: bool) -> None:
    answer = await asked(profile, weak.unparsable_as_text(), stream=stream)
    assert text_of(checked(answer, stream=stream)).startswith("<tool_call>")


# --- errors inside a stream


@pytest.mark.requirement("weak:stream-error")
@pytest.mark.parametrize("ahead", [[], [Text("Some text", chunks=3)]], ids=["first", "after-text"])
@pytest.mark.parametrize(
    "error",
    [
        StreamError("Failed to parse input at pos 0", code=500),
        StreamError("it broke", code="500", type="InternalServerError"),
        StreamError("it broke", code=None, type=None),
        StreamError("it broke", event="error"),
        Data('{"error":"it broke"}'),
        Data('{"object":"error","message":"it broke","type":"BadRequestError","code":400}'),
        Data('{"error":{"object":"error","message":"it broke","code":400}}'),
        Data('{"error":{"code":500,"message":"it broke","type":"server_error"},"choices":[]}'),
        Data("it broke", event="error"),
    ],
    ids=[
        "llama-server",
        "text-code",
        "no-code",
        "named-event",
        "text",
        "flat",
        "sglang",
        "with-choices",
        "no-json",
    ],
)
@pytest.mark.parametrize("marked", [False, True], ids=["bare", "done-mark"])
async def test_an_error_inside_a_stream_is_an_error(
    error: Any, ahead: list[Any], marked: bool
) -> None:
    steps = [*ahead, error, *([Data("[DONE]")] if marked else [])]
    answer = await asked("llama_cpp", Reply(*steps), stream=True)
    assert answer.status == 200
    assert answer.types[-2:] == ["error", "failed"]
    assert "completed" not in answer.types
    response = answer.response
    assert response["status"] == "failed"
    assert any(said in response["error"]["message"] for said in ("it broke", "Failed to parse"))
    texts = [event["delta"] for event in answer.of_type("output_text.delta")]
    assert "".join(texts) == ("Some text" if ahead else "")
    assert all(item["status"] == "incomplete" for item in response["output"])


@pytest.mark.requirement("weak:stream-error")
async def test_the_same_error_without_a_stream_is_its_status() -> None:
    answer = await asked("llama_cpp", weak.unparsable_output(), stream=False)
    assert answer.status == 500
    assert answer.error["message"] == "Failed to parse input at pos 0"


@pytest.mark.requirement("weak:stream-error")
async def test_an_error_object_in_a_200_body_is_an_error() -> None:
    body = b'{"object":"error","message":"it broke","code":400}'
    answer = await asked("vllm", weak.error_as_200(body), stream=False)
    assert answer.status >= 400
    assert answer.error["message"] == "it broke"
