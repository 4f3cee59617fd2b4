"""A turn as a Chat request: one row for each rule of the translation."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bascule.protocols.chat.encoder import encode_request, encode_tools
from bascule.protocols.errors import ApiError
from bascule.protocols.flags import Flags, override
from bascule.protocols.function import FunctionSpec, WireChoice
from bascule.protocols.responses import door
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Part,
    Thought,
)

FLAGS = Flags(
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
    hosted_tools=(),
    custom_tools=False,
    flatten_tool_search_family=True,
    namespace_description=False,
    name_limit=64,
    encrypted_reasoning=False,
    file_input="data",
    audio_input=True,
    logprobs=True,
    service_tier=True,
    prompt_cache=True,
    end_user=True,
    input_counting="none",
    enforces_required=True,
    enforces_named=True,
    enforces_none=True,
    enforces_parallel=True,
    text_tool_calls=False,
    repair_arguments=False,
    grammar="none",
)
SCHEMA = b'{"type":"object","properties":{"b":{},"a":{}}}'


def encoded(
    *items: Flat,
    flags: dict[str, Any] | None = None,
    tools: list[FunctionSpec] | None = None,
    choice: WireChoice | None = None,
    **fields: Any,
) -> dict[str, Any]:
    request = door.decode(msgspec.json.encode({"model": "m", "input": "", **fields}))
    chosen = override(FLAGS, flags or {})
    answer = encode_request(
        request,
        model="wire-model",
        items=items,
        tools=encode_tools(tools, chosen) if tools else b"",
        choice=choice or WireChoice(),
        flags=chosen,
    )
    return {**msgspec.json.decode(answer.body), "ignored": answer.ignored}


def messages(*items: Flat, **options: Any) -> list[Any]:
    return encoded(*items, **options)["messages"]


def refused(*items: Flat, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        encoded(*items, **options)
    assert caught.value.status == 400
    return caught.value


def user(text: str) -> Message:
    return Message("user", text)


def said(text: str) -> Message:
    return Message("assistant", [Part("output_text", text=text)])


def call(id_: str, name: str = "f") -> FunctionCall:
    return FunctionCall(id_, name, "{}")


def output(id_: str, text: str | list[Part] = "ok") -> FunctionCallOutput:
    return FunctionCallOutput(id_, text)


def shape(found: list[Any]) -> list[str]:
    """`user`, `assistant+a,b` (its calls), `tool:a`, in order."""
    shown: list[str] = []
    for message in found:
        role = message["role"]
        if message.get("tool_calls"):
            role += "+" + ",".join(entry["id"] for entry in message["tool_calls"])
        if role == "tool":
            role += ":" + message["tool_call_id"]
        shown.append(role)
    return shown


IMAGE = Part("input_image", image_url="data:image/png;base64,AAAA")


# --- system and roles


def test_instructions_come_first() -> None:
    found = messages(Message("system", "two"), user("x"), instructions="one")
    assert [(m["role"], m["content"]) for m in found] == [
        ("system", "one"),
        ("system", "two"),
        ("user", "x"),
    ]


def test_developer_becomes_system_where_it_is_unknown() -> None:
    items = [Message("developer", "a"), user("x"), Message("developer", "b")]
    assert shape(messages(*items)) == ["developer", "user", "developer"]
    assert shape(messages(*items, flags={"developer_role": False})) == ["system", "user", "system"]


def test_text_is_a_string_where_it_can_be() -> None:
    one, two = Part("input_text", text="a"), Part("input_text", text="b")
    assert messages(Message("user", [one]))[0]["content"] == "a"
    assert messages(Message("user", [one, two]))[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert messages(said("a"))[0] == {"role": "assistant", "content": "a"}


def test_images() -> None:
    shown = Part("input_image", image_url="https://x/y.png", detail="low")
    found = messages(Message("user", [Part("input_text", text="a"), IMAGE, shown]))
    assert found[0]["content"][1:] == [
        {"type": "image_url", "image_url": {"url": IMAGE.image_url}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
    ]
    assert refused(Message("user", [IMAGE]), flags={"image_input": False}).param == "input"
    assert refused(Message("assistant", [IMAGE])).param == "input"


# --- calls and outputs


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([user("x"), call("a"), output("a")], ["user", "assistant+a", "tool:a"]),
        # Parallel calls are one message, results follow it.
        (
            [call("a"), call("b"), output("a"), output("b")],
            ["assistant+a,b", "tool:a", "tool:b"],
        ),
        ([call("a"), call("b"), output("b"), output("a")], ["assistant+a,b", "tool:b", "tool:a"]),
        # One after the other.
        (
            [call("a"), output("a"), call("b"), output("b")],
            ["assistant+a", "tool:a", "assistant+b", "tool:b"],
        ),
        # A call between the results of others joins them.
        (
            [call("a"), call("b"), output("a"), call("c"), output("b"), output("c")],
            ["assistant+a,b,c", "tool:a", "tool:b", "tool:c"],
        ),
        # Text before, between and behind.
        ([said("s"), call("a"), output("a")], ["assistant+a", "tool:a"]),
        ([call("a"), said("s"), output("a")], ["assistant+a", "tool:a"]),
        ([call("a"), output("a"), said("s")], ["assistant+a", "tool:a", "assistant"]),
        (
            [call("a"), output("a"), said("s"), call("b"), output("b")],
            ["assistant+a", "tool:a", "assistant+b", "tool:b"],
        ),
        # What users say between a call and its result waits.
        ([call("a"), user("x"), output("a")], ["assistant+a", "tool:a", "user"]),
        (
            [call("a"), call("b"), output("a"), user("x"), output("b"), said("s")],
            ["assistant+a,b", "tool:a", "tool:b", "user", "assistant"],
        ),
        # The same id again, in a later round.
        (
            [call("0"), output("0"), call("0"), output("0")],
            ["assistant+0", "tool:0", "assistant+0", "tool:0"],
        ),
        ([user("x"), said("s"), user("y")], ["user", "assistant", "user"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else "",
)
def test_results_stand_behind_their_calls(items: list[Flat], expected: list[str]) -> None:
    assert shape(messages(*items)) == expected


def test_text_between_a_call_and_its_result_is_folded_before_the_call() -> None:
    found = messages(said("one"), call("a"), said(" two"), output("a"))
    assert found[0]["content"] == "one two"


@pytest.mark.parametrize(
    "items",
    [
        [call("a")],
        [call("a"), call("b"), output("a")],
        [output("a")],
        [call("a"), output("b")],
        [call("a"), output("a"), output("a")],
        [call("a"), call("a"), output("a")],
    ],
)
def test_calls_and_results_that_do_not_match(items: list[Flat]) -> None:
    assert refused(*items).param == "input"


def test_images_in_results_are_lifted_behind_all_results() -> None:
    mixed = [Part("input_text", text="see"), IMAGE]
    found = messages(call("a"), call("b"), output("a", mixed), output("b"), user("x"))
    assert shape(found) == ["assistant+a,b", "tool:a", "tool:b", "user", "user"]
    assert found[1]["content"] == "see"
    assert "a" in found[3]["content"][0]["text"]
    assert found[3]["content"][1]["image_url"]["url"] == IMAGE.image_url
    assert "AAAA" not in str(found[:3])


# --- reasoning


@pytest.mark.parametrize("flag", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_where_the_server_wants_it(flag: str) -> None:
    thought = Thought("hm", [Raw(b'{"type":"x"}')])
    items = [user("x"), thought, call("a"), output("a"), thought, said("s")]
    found = messages(*items, flags={"reasoning_replay": flag})
    assert [m.get(flag) for m in found] == [None, "hm", None, "hm"]
    assert "reasoning_details" not in found[1]
    assert "hm" not in str(messages(*items))


def test_reasoning_details_go_back_as_they_came() -> None:
    thought = Thought("hm", [Raw(b'{"type":"x","data":1}')])
    found = messages(thought, said("s"), flags={"reasoning_replay": "reasoning_details"})
    assert found == [
        {"role": "assistant", "content": "s", "reasoning_details": [{"type": "x", "data": 1}]}
    ]


def test_reasoning_between_calls_begins_a_new_message_only_when_none_waits() -> None:
    flags = {"reasoning_replay": "reasoning_content"}
    one = messages(call("a"), Thought("t"), call("b"), output("a"), output("b"), flags=flags)
    assert shape(one) == ["assistant+a,b", "tool:a", "tool:b"]
    two = messages(call("a"), output("a"), Thought("t"), call("b"), output("b"), flags=flags)
    assert shape(two) == ["assistant+a", "tool:a", "assistant+b", "tool:b"]
    assert two[2]["reasoning_content"] == "t"


@pytest.mark.parametrize(
    ("flag", "field", "value", "ignored"),
    [
        ("reasoning_effort", "reasoning_effort", "low", []),
        ("enable_thinking", "chat_template_kwargs", {"enable_thinking": True}, []),
        ("none", "reasoning_effort", None, ["reasoning.effort"]),
    ],
)
def test_effort(flag: str, field: str, value: Any, ignored: list[str]) -> None:
    found = encoded(flags={"reasoning_effort": flag}, reasoning={"effort": "low"})
    assert (found.get(field), found["ignored"]) == (value, ignored)


def test_no_effort_turns_thinking_off() -> None:
    found = encoded(flags={"reasoning_effort": "enable_thinking"}, reasoning={"effort": "none"})
    assert found["chat_template_kwargs"] == {"enable_thinking": False}


# --- tools


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (b"", None),
        (SCHEMA, SCHEMA),
        (b'{"type":"object"}', b'{"type":"object","properties":{}}'),
        (b'{"type": "object",\n"required":[]}', b'{"type":"object","required":[],"properties":{}}'),
        (
            b'{"type":"object","additionalProperties":false}',
            b'{"type":"object","additionalProperties":false,"properties":{}}',
        ),
        (b'{"type":"object","properties":null}', b'{"type":"object","properties":{}}'),
        (b'{"anyOf":[{"type":"object"}]}', b'{"anyOf":[{"type":"object"}]}'),
        (b'{"type":["object","null"]}', b'{"type":["object","null"]}'),
        (b"{}", b"{}"),
    ],
)
def test_parameters(given: bytes, sent: bytes | None) -> None:
    tools = encode_tools([FunctionSpec("f", None, Raw(given))], FLAGS)
    expected = b'[{"function":{"name":"f"%b},"type":"function"}]' % (
        b"" if sent is None else b',"parameters":' + sent
    )
    assert tools == expected


def test_strict_is_kept_where_it_is_understood() -> None:
    specs = [FunctionSpec("f", "d", Raw(SCHEMA), strict) for strict in (True, False, None)]

    def sent(**flags: Any) -> list[Any]:
        tools = msgspec.json.decode(encode_tools(specs, override(FLAGS, flags)))
        return [tool["function"].get("strict", "absent") for tool in tools]

    assert sent() == [True, False, "absent"]
    assert sent(strict_tools=False) == ["absent"] * 3


F, G = FunctionSpec("f"), FunctionSpec("g")


@pytest.mark.parametrize(
    ("choice", "flags", "sent"),
    [
        (WireChoice(), {}, None),
        (WireChoice("none"), {}, "none"),
        (WireChoice("required"), {}, "required"),
        (WireChoice("required", "f"), {}, {"type": "function", "function": {"name": "f"}}),
        (
            WireChoice("auto", None, ("f",)),
            {},
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
        ),
        (WireChoice("auto", None, ("f",)), {"allowed_tools": False}, None),
        (WireChoice("required", None, ("f",)), {"allowed_tools": False}, "required"),
    ],
)
def test_tool_choice(choice: WireChoice, flags: dict[str, Any], sent: Any) -> None:
    found = encoded(tools=[F, G], choice=choice, flags=flags)
    assert found.get("tool_choice") == sent
    assert [tool["function"]["name"] for tool in found["tools"]] == ["f", "g"]


def test_no_choice_without_tools() -> None:
    found = encoded(choice=WireChoice("none"), parallel_tool_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(found)


@pytest.mark.parametrize("known", [True, False])
def test_parallel_tool_calls(known: bool) -> None:
    found = encoded(tools=[F], parallel_tool_calls=False, flags={"parallel_tool_calls": known})
    assert found.get("parallel_tool_calls") == (False if known else None)
    assert "parallel_tool_calls" not in encoded(tools=[F])


# --- the other fields


def test_limits_and_sampling() -> None:
    given: dict[str, Any] = {"max_output_tokens": 50, "temperature": 0.5, "top_p": 0.9}
    found = encoded(**given)
    assert (found["max_completion_tokens"], found["temperature"], found["top_p"]) == (50, 0.5, 0.9)
    assert encoded(**given, flags={"max_completion_tokens": False})["max_tokens"] == 50
    assert set(encoded()) == {"model", "messages", "ignored"}
    assert encoded()["model"] == "wire-model"


def test_usage_is_always_asked_for_in_a_stream() -> None:
    assert encoded(stream=True)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in encoded(stream=True, flags={"stream_usage": False})
    assert "stream_options" not in encoded()


def test_structured_output_is_nested_and_keeps_its_order() -> None:
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": Raw(SCHEMA)}
    found = encoded(text={"format": form})["response_format"]
    assert found["type"] == "json_schema"
    assert list(found["json_schema"]["schema"]["properties"]) == ["b", "a"]
    assert found["json_schema"] == {
        "name": "n",
        "strict": True,
        "schema": msgspec.json.decode(SCHEMA),
    }
    error = refused(text={"format": form}, flags={"structured_output": False})
    assert error.param == "text.format"
    plain = encoded(text={"format": {"type": "json_object"}})
    assert plain["response_format"] == {"type": "json_object"}
    assert "response_format" not in encoded(text={"format": {"type": "text"}})


def test_verbosity() -> None:
    assert encoded(text={"verbosity": "low"})["verbosity"] == "low"
    found = encoded(text={"verbosity": "low"}, flags={"verbosity": False})
    assert "verbosity" not in found
    assert found["ignored"] == ["text.verbosity"]
