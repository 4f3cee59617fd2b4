"""A turn whose model server speaks Responses: everything passes, under ids of our own."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bascule.protocols.responses.decoder import ResponsesDecoder
from bascule.testing import Answer as Scripted
from bascule.testing import (
    Data,
    Eof,
    ModelServer,
    Reply,
    Request,
    Wire,
    http_json,
    responded,
    responses_events,
)
from tests.conformance.stream import check_stream as conformance_stream
from tests.serving import Answer, serving
from tests.stream_rules import check_stream as check_frames

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

RESPONSES = {"protocol": "responses"}


def check_stream(answer: Answer) -> Json:
    """The rules of every stream; the Open Responses document knows neither hosted nor new items."""
    check_frames(answer.frames)
    return answer.response


def in_turn(*scripts: Callable[[Request], Scripted]) -> Callable[[Request], Scripted]:
    """One after the other."""
    return lambda request: scripts[request.number - 1](request)


def message(text: str, id_: str = "msg_up", **more: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": id_,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
        **more,
    }


def reasoning(blob: str | None = None, id_: str = "rs_up") -> Json:
    item: Json = {"id": id_, "type": "reasoning", "summary": []}
    return item if blob is None else {**item, "encrypted_content": blob}


def call(name: str, arguments: str, call_id: str = "call_1", **more: Any) -> Json:
    return {
        "id": "fc_up",
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **more,
    }


@pytest.mark.requirement("upstream:responses:items", "upstream:responses:extensions")
async def test_items_of_any_type_pass_with_their_members() -> None:
    search = {
        "id": "ws_up",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "x", "new": 1.50},
        "surprise": {"a": [1]},
    }
    odd = {
        "id": "zz_up",
        "type": "acme:thing",
        "status": "completed",
        "payload": 12345678901234567890,
    }
    said = message("Found.", surprise=True, phase="final_answer")
    tools = [{"type": "web_search", "search_context_size": "low"}, {"type": "acme:tool", "x": 1}]
    async with (
        ModelServer(responded(search, odd, said), then="repeat") as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        streamed = await api.create(stream=True, tools=tools)
        whole = await api.create(tools=tools)
    for response in (check_stream(streamed), whole.response):
        items = response["output"]
        assert [without_id(item) for item in items] == [
            without_id(item) for item in (search, odd, said)
        ]
        ids = [item["id"] for item in items]
        assert not {"ws_up", "zz_up", "msg_up"} & set(ids)
        assert ids[0].startswith("ws_")
        assert response["tools"] == tools
        assert response["usage"]["input_tokens"] == 12
    assert model.chats[0].json["tools"] == tools
    assert model.chats[0].path == "/v1/responses"


def without_id(item: Json) -> Json:
    return {key: value for key, value in item.items() if key != "id"}


@pytest.mark.requirement("upstream:responses:request")
async def test_fields_pass_and_the_state_is_the_gateways() -> None:
    async with (
        ModelServer(responded(message("Hi."), then="x"), then="repeat") as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(
            instructions="Be brief.",
            temperature=0.5,
            metadata={"a": "b"},
            reasoning={"effort": "low"},
            acme_field={"x": [1, 2]},
            tools=[{"type": "function", "name": "f", "parameters": None, "acme": 1}],
        )
    sent = model.chats[0].json
    assert sent["instructions"] == "Be brief."
    assert sent["temperature"] == 0.5
    assert sent["metadata"] == {"a": "b"}
    assert sent["acme_field"] == {"x": [1, 2]}
    assert sent["tools"] == [{"type": "function", "name": "f", "parameters": None, "acme": 1}]
    assert sent["store"] is False
    assert "previous_response_id" not in sent
    assert answer.response["store"] is True
    assert answer.response["then"] == "x"  # a member of the server's response that nobody knows
    assert answer.response["id"] != "resp_upstream"


@pytest.mark.requirement("upstream:responses:ids")
async def test_an_item_goes_back_under_the_servers_own_id() -> None:
    script = in_turn(responded(reasoning("BLOB"), message("One.")), responded(message("Two.")))
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        first = await api.create(input="Hello")
        second = await api.create(input="More", previous_response_id=first.response["id"])
    assert second.status == 200, second.body
    shown = first.response["output"]
    assert "encrypted_content" not in shown[0], "nobody asked for it"
    assert shown[1]["id"] != "msg_up"
    sent = model.chats[1].json["input"]
    assert sent[1] == reasoning("BLOB")
    assert sent[2] == message("One.")
    assert [item["role"] for item in (sent[0], sent[3])] == ["user", "user"]
    assert "id" not in sent[0]
    before = model.chats[0].json["input"]
    assert sent[: len(before)] == before, "what was said goes out as it did"


@pytest.mark.requirement("upstream:responses:encrypted")
async def test_encrypted_reasoning_is_sealed_and_returns_to_its_server_alone() -> None:
    async with (
        ModelServer(responded(reasoning("BLOB"), message("One.")), then="repeat") as model,
        ModelServer("Elsewhere.", then="repeat") as other,
    ):
        upstreams = [
            {"name": "a", "base_url": model.url, "profile": "openai", "protocol": "responses"},
            {"name": "b", "base_url": other.url, "profile": "openai", "models": ["b/*"]},
        ]
        async with serving("", upstreams=upstreams) as api:
            asked: Json = {"store": False, "include": ["reasoning.encrypted_content"]}
            first = await api.create(model="a/m", **asked)
            items = first.response["output"]
            assert items[0]["encrypted_content"] != "BLOB"
            history = [{"role": "user", "content": "Hello"}, *items]
            history.append({"role": "user", "content": "More"})
            again = await api.create(model="a/m", input=history, **asked)
            there = await api.create(model="b/m", input=history, **asked)
    assert (again.status, there.status) == (200, 200)
    assert model.chats[1].json["input"][1] == reasoning("BLOB")
    assert "include" in model.chats[0].json
    assert b"BLOB" not in other.chats[0].body


@pytest.mark.requirement("upstream:responses:calls")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_function_call_and_its_output(stream: bool) -> None:
    called = responded(call("get_weather", '{"city":"Oslo"}'))
    script = in_turn(called, responded(message("Rain.")))
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        first = await api.create(stream=stream, tools=[tool])
        assert first.response["output"][0]["arguments"] == '{"city":"Oslo"}'
        output = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
        previous = first.response["id"]
        missing = await api.create(tools=[tool], previous_response_id=previous)
        second = await api.create(
            stream=stream, tools=[tool], input=[output], previous_response_id=previous
        )
    assert missing.status == 400
    assert missing.error["message"] == "No tool output found for function call call_1."
    assert second.response["output"][0]["content"][0]["text"] == "Rain."
    sent = model.chats[1].json["input"]
    assert sent[1] == call("get_weather", '{"city":"Oslo"}')
    assert without_id(sent[2]) == output


@pytest.mark.requirement("upstream:responses:custom")
async def test_a_custom_tool_passes_where_the_server_knows_it_and_is_a_function_elsewhere() -> None:
    made = {
        "id": "ctc_up",
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "run",
        "input": "ls -l",
    }
    tool = {"type": "custom", "name": "run"}
    async with (
        ModelServer(responded(made), then="repeat") as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(stream=True, tools=[tool])
    assert without_id(check_stream(answer)["output"][0]) == without_id(made)
    assert model.chats[0].json["tools"] == [tool]
    as_function = responded(call("run", '{"input":"ls -l"}'))
    options = {**RESPONSES, "flags": {"custom_tools": False}}
    async with (
        ModelServer(as_function) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        answer = await api.create(stream=True, tools=[tool])
    item = check_stream(answer)["output"][0]
    assert (item["type"], item["input"]) == ("custom_tool_call", "ls -l")
    assert model.chats[0].json["tools"][0]["type"] == "function"


@pytest.mark.requirement("upstream:responses:hosted")
async def test_a_hosted_type_that_the_server_does_not_run_is_not_offered() -> None:
    options = {**RESPONSES, "flags": {"hosted_tools": ["file_search"]}}
    async with (
        ModelServer(responded(message("Hi.")), then="repeat") as model,
        serving(model.url, upstream_options=options) as api,
    ):
        untold = await api.create(tools=[{"type": "web_search"}])
        passed = await api.create(tools=[{"type": "file_search", "vector_store_ids": ["v"]}])
        sent = [request.json.get("tools") for request in model.chats]
    assert (untold.status, untold.headers["x-bascule-ignored"]) == (200, "tools[0]")
    assert passed.status == 200
    assert sent == [None, [{"type": "file_search", "vector_store_ids": ["v"]}]]


@pytest.mark.requirement("upstream:responses:choice")
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "web_search"},
        {"type": "function", "name": "f"},
        {"type": "mcp", "server_label": "docs", "name": "find"},
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
        },
        "required",
        "none",
    ],
)
async def test_a_tool_choice_passes(choice: Any) -> None:
    tools = [
        {"type": "function", "name": "f"},
        {"type": "web_search"},
        {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp"},
    ]
    async with (
        ModelServer(responded(message("Hi."))) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(tools=tools, tool_choice=choice)
    assert answer.status == 200, answer.body
    assert model.chats[0].json["tool_choice"] == choice
    assert answer.response["tool_choice"] == choice


@pytest.mark.requirement("upstream:responses:choice")
async def test_a_choice_of_a_tool_that_is_not_declared_is_refused() -> None:
    async with (
        ModelServer(responded(message("Hi."))) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(
            tools=[{"type": "web_search"}], tool_choice={"type": "file_search"}
        )
    assert (answer.status, answer.error["param"]) == (400, "tool_choice")


@pytest.mark.requirement("upstream:responses:flags")
async def test_what_the_server_does_not_know_is_left_out_and_said() -> None:
    flags = {
        "developer_role": False,
        "strict_tools": False,
        "verbosity": False,
        "parallel_tool_calls": False,
        "reasoning_effort": "none",
    }
    async with (
        ModelServer(responded(message("Hi."))) as model,
        serving(model.url, upstream_options={**RESPONSES, "flags": flags}) as api,
    ):
        answer = await api.create(
            input=[
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            text={"verbosity": "low", "format": {"type": "text"}},
            reasoning={"effort": "high", "summary": "auto"},
            tools=[{"type": "function", "name": "f", "strict": True}],
            parallel_tool_calls=False,
        )
    sent = model.chats[0].json
    assert sent["input"][0]["role"] == "system"
    assert sent["text"] == {"format": {"type": "text"}}
    assert sent["reasoning"] == {"summary": "auto"}
    assert sent["tools"] == [{"type": "function", "name": "f"}]
    assert "parallel_tool_calls" not in sent
    ignored = set(answer.headers["x-bascule-ignored"].split(","))
    assert ignored == {"text.verbosity", "reasoning.effort", "tools[0].strict"}


@pytest.mark.requirement("upstream:responses:extensions")
async def test_events_of_extensions_pass_and_pings_do_not() -> None:
    events = responses_events(message("Hi."))
    vendor: Json = {
        "type": "acme:progress",
        "sequence_number": 3,
        "percent": 50,
        "more": {"a": [1]},
    }
    about: Json = {
        "type": "acme:mood",
        "sequence_number": 4,
        "item_id": "msg_up",
        "output_index": 0,
        "mood": "good",
    }
    ping: Json = {"type": "ping"}
    told = [*events[:3], vendor, ping, about, *events[3:]]
    steps = [Data(msgspec.json.encode(event).decode(), event["type"]) for event in told]
    script = Reply(*steps, Eof(), wire=Wire(answer="sse"))
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(stream=True)
    check_stream(answer)
    by_type = {event["type"]: event for event in answer.events}
    assert by_type["acme:progress"] == {**vendor, "sequence_number": 3}
    item_id = answer.response["output"][0]["id"]
    assert by_type["acme:mood"] == {**about, "sequence_number": 4, "item_id": item_id}
    assert "ping" not in by_type


@pytest.mark.requirement("upstream:responses:broken")
@pytest.mark.parametrize(
    ("told", "status"),
    [
        ([{"type": "response.output_text.delta", "output_index": 0, "delta": "x"}], "failed"),
        ([{"type": "response.output_item.added", "output_index": 0}], "failed"),
        ([{"type": "response.output_item.added", "output_index": 0, "item": {"a": 1}}], "failed"),
        ([{"type": "error", "error": {"message": "Oh", "code": "server_error"}}], "failed"),
        ([{"type": "error", "message": "Oh", "code": "server_error", "param": None}], "failed"),
        ([{"error": {"code": 500, "message": "Oh"}}], "failed"),
        (
            [{"type": "response.failed", "response": {"error": {"code": "x", "message": "Oh"}}}],
            "failed",
        ),
        (
            [
                {
                    "type": "response.incomplete",
                    "response": {"incomplete_details": {"reason": "content_filter"}},
                }
            ],
            "incomplete",
        ),
        ([{"type": "response.completed", "response": {"output": "none"}}], "failed"),
        ([], "failed"),
    ],
)
async def test_a_broken_answer_ends_truthfully(told: list[Json], status: str) -> None:
    begun = responses_events(message("Hi there."))[:5]
    if told and "delta" in told[0]:
        begun = begun[:2]
    steps = [Data(msgspec.json.encode(event).decode()) for event in [*begun, *told]]
    script = Reply(*steps, Eof(), wire=Wire(answer="sse"))
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(stream=True)
        stored = await api.send("GET", f"/v1/responses/{answer.response['id']}")
    response = check_stream(answer)
    assert response["status"] == status
    for item in response["output"]:
        assert item["status"] == "incomplete"
        assert item["content"][0]["text"] == "Hi t"
    assert stored.json["output"] == response["output"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"object": "response", "status": "failed", "error": {"message": "Oh"}, "output": []}),
        (200, {"object": "response", "status": "queued", "output": []}),
        (200, {"object": "list"}),
        (404, {"error": {"message": "No such model", "code": "model_not_found"}}),
    ],
)
async def test_a_whole_answer_that_is_none_is_an_error(status: int, body: Json) -> None:
    async with (
        ModelServer(http_json(status, body)) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create()
    assert answer.status == (404 if status == 404 else 502)
    assert answer.error["message"]


async def test_what_a_server_leaves_out_is_added() -> None:
    """llama-server never says that arguments are done; others tell of an item at the end only."""
    made = call("f", '{"a":1}')
    events = [
        e for e in responses_events(made, message("Hi.")) if "arguments.done" not in e["type"]
    ]
    told = [e for e in events if e.get("output_index") != 1]
    steps = [Data(msgspec.json.encode(event).decode()) for event in told]
    script = Reply(*steps, Eof(), wire=Wire(answer="sse"))
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(stream=True, tools=[{"type": "function", "name": "f"}])
    response = check_stream(answer)
    assert [item["type"] for item in response["output"]] == ["function_call", "message"]
    assert answer.of_type("function_call_arguments.done")[0]["arguments"] == '{"a":1}'
    assert "".join(e["delta"] for e in answer.of_type("output_text.delta")) == "Hi."


async def test_a_stream_may_come_in_any_pieces() -> None:
    events = responses_events(reasoning(), call("f", '{"a":"ü"}'), message("Héllo wörld"))
    data = b"".join(
        b"event: %b\ndata: %b\n\n" % (e["type"].encode(), msgspec.json.encode(e)) for e in events
    )
    whole: list[Any] = []
    for size in (1, 7, 64, len(data)):
        decoder = ResponsesDecoder()
        found: list[Any] = []
        for at in range(0, len(data), size):
            found += decoder.feed(data[at : at + size])
        found += decoder.end()
        kinds = [type(event).__name__ for event in found]
        whole = whole or kinds
        assert kinds == whole
    assert whole[-1] == "RoundEnd"


@pytest.mark.requirement("upstream:responses:loose")
async def test_events_without_indexes_as_llama_server_sends_them() -> None:
    events = responses_events(message("Hello there."), call("f", '{"a":1}'))
    for event in events:
        event.pop("content_index", None)
        if "delta" in event["type"]:
            event.pop("output_index", None)
        if "part" in event:
            event["part"] = {key: event["part"][key] for key in ("type", "text")}
    steps = [Data(msgspec.json.encode(event).decode()) for event in events]
    script = Reply(*steps, Eof(), wire=Wire(answer="sse"))
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(stream=True, tools=[{"type": "function", "name": "f"}])
    conformance_stream(answer)
    assert [e["delta"] for e in answer.of_type("output_text.delta")] == ["Hello ", "there."]


@pytest.mark.requirement("upstream:responses:loose")
async def test_a_delta_with_an_unknown_member_passes_whole() -> None:
    events = responses_events(message("Hello there."))
    for event in events:
        if event["type"].endswith(".delta"):
            event["acme"] = {"x": 1}
    steps = [Data(msgspec.json.encode(event).decode()) for event in events]
    script = Reply(*steps, Eof(), wire=Wire(answer="sse"))
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(stream=True)
    check_stream(answer)
    deltas = answer.of_type("output_text.delta")
    assert [(e["delta"], e["acme"]) for e in deltas] == [("Hello ", {"x": 1}), ("there.", {"x": 1})]


@pytest.mark.requirement("choice:weak:forced")
async def test_a_call_is_forced_through_the_format_of_the_text() -> None:
    function = {
        "type": "function",
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }
    flags = {"enforces_named": False, "structured_output": True}
    answers = iter([responded(message("I will not.")), responded(message('{"a":1}'))])

    def by_turn(request: Request) -> Any:
        return next(answers)(request)

    async with (
        ModelServer(by_turn) as model,
        serving(
            model.url, upstream_options={**RESPONSES, "flags": flags}, tools={"max_reasks": 0}
        ) as api,
    ):
        choice = {"type": "function", "name": "f"}
        answer = await api.create(tools=[function], tool_choice=choice, text={"verbosity": "low"})
        sent = model.chats[1].json
    (call,) = answer.response["output"]
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "f", '{"a":1}')
    assert sent["text"]["format"]["schema"] == function["parameters"]
    assert sent["text"]["verbosity"] == "low"
