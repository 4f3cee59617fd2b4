"""Every row of the capability matrix, proved by a request through a gateway to a Chat server."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from bascule.protocols import capabilities
from bascule.protocols.capability import Capability, Verdict
from bascule.protocols.capability_rows import ROWS
from bascule.protocols.responses.fields import CHECKED, READ
from bascule.testing import Reply, Text
from tests.conformance.asking import CITY, WEATHER, gateway
from tests.engine.context import context_of
from tests.plugin.calling import CALLED, MODULE
from tests.serving import Answer
from tests.tools.declarations import DECLARED, WIRE
from tests.tools.history_samples import REFUSED, SAMPLES, called

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
Seen = Callable[[Json, Json], Any]
"""From what the upstream received and the response object: whether the thing had its effect."""


@dataclass
class Sample:
    """A request that holds one thing."""

    fields: Json
    seen: Seen = lambda _, __: False
    param: str = ""
    code: str = "unsupported_parameter"
    ignored: str = ""
    continues: bool = False
    """An earlier response's id goes with it."""
    converses: bool = False
    """A conversation of one message goes with it."""
    refers: bool = False
    """It begins with a reference to what an earlier response said."""


def same(name: str, value: Any) -> Sample:
    """A field that goes to the server as it is."""
    return Sample({name: value}, lambda sent, _: sent.get(name) == value, name)


def shown(name: str, value: Any) -> Sample:
    """A field that the gateway honours by itself, and shows."""
    return Sample({name: value}, lambda _, response: response[name] == value, name)


def refused(name: str, value: Any) -> Sample:
    return Sample({name: value}, param=name)


FIELDS: dict[str, Sample] = {
    "model": Sample({"model": "other"}, lambda sent, _: sent["model"] == "other"),
    "input": Sample({"input": "Hi"}, lambda sent, _: sent["messages"][0]["content"] == "Hi"),
    "instructions": Sample(
        {"instructions": "Be brief."},
        lambda sent, _: sent["messages"][0] == {"role": "system", "content": "Be brief."},
    ),
    "previous_response_id": Sample({}, lambda sent, _: len(sent["messages"]) == 3, continues=True),
    "conversation": Sample({}, lambda sent, _: len(sent["messages"]) == 2, converses=True),
    "store": shown("store", False),
    "background": refused("background", True),
    "background_options": refused("background_options", {"completion_window": "2h"}),
    "stream": Sample({"stream": True}, lambda sent, _: sent["stream"] is True),
    "stream_options": Sample(
        {"stream": True, "stream_options": {"include_obfuscation": False}},
        lambda _, response: response["status"] == "completed",
    ),
    "include": Sample(
        {"include": ["message.output_text.logprobs"]},
        lambda _, response: response["output"][0]["content"][0]["logprobs"],
    ),
    "tools": Sample(
        {"tools": [WEATHER]}, lambda sent, _: sent["tools"][0]["function"]["name"] == "get_weather"
    ),
    "tool_choice": Sample(
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}},
        lambda sent, _: sent["tool_choice"]["function"] == {"name": "get_weather"},
    ),
    "parallel_tool_calls": Sample(
        {"tools": [WEATHER], "parallel_tool_calls": False},
        lambda sent, _: sent.get("parallel_tool_calls") is False,
    ),
    "max_tool_calls": shown("max_tool_calls", 1),
    "max_output_tokens": Sample(
        {"max_output_tokens": 16}, lambda sent, _: sent["max_completion_tokens"] == 16
    ),
    "temperature": same("temperature", 0.5),
    "top_p": same("top_p", 0.5),
    "presence_penalty": same("presence_penalty", -0.5),
    "frequency_penalty": same("frequency_penalty", 0.5),
    "top_logprobs": Sample(
        {"top_logprobs": 2, "include": ["message.output_text.logprobs"]},
        lambda sent, _: (sent.get("logprobs"), sent.get("top_logprobs")) == (True, 2),
    ),
    "text": Sample(
        {"text": {"format": {"type": "json_object"}}},
        lambda sent, _: sent["response_format"] == {"type": "json_object"},
    ),
    "reasoning": Sample(
        {"reasoning": {"effort": "low"}}, lambda sent, _: sent["reasoning_effort"] == "low"
    ),
    "truncation": Sample(
        {"truncation": "auto", "input": [{"role": "user", "content": t * 9000} for t in "ab"]},
        lambda sent, _: len(sent["messages"]) == 1,
    ),
    "metadata": shown("metadata", {"a": "b"}),
    "service_tier": same("service_tier", "flex"),
    "prompt_cache_key": same("prompt_cache_key", "k"),
    "prompt_cache_retention": same("prompt_cache_retention", "24h"),
    "prompt_cache_options": refused("prompt_cache_options", {"mode": "explicit"}),
    "safety_identifier": same("safety_identifier", "s"),
    "user": same("user", "u"),
    "prompt": refused("prompt", {"id": "pmpt_1"}),
    "context_management": refused("context_management", [{"type": "compaction"}]),
    "image": refused("image", {"context_compression": "disabled"}),
    "moderation": refused("moderation", {"model": "m"}),
    "access_programs": refused("access_programs", {"cyber": "standard"}),
    "multi_agent": refused("multi_agent", {}),
    "betas": refused("betas", ["x"]),
}

_DIGITS = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
OPTIONS: dict[str, Sample] = {
    "text.format": Sample(
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": CITY}}},
        lambda sent, _: sent["response_format"]["json_schema"]["schema"] == CITY,
        "text.format",
        "unsupported_value",
    ),
    "text.verbosity": Sample(
        {"text": {"verbosity": "low"}}, lambda sent, _: sent.get("verbosity") == "low"
    ),
    "reasoning.effort": Sample(
        {"reasoning": {"effort": "low"}}, lambda sent, _: sent.get("reasoning_effort") == "low"
    ),
    "reasoning.summary": Sample(
        {"reasoning": {"summary": "auto"}},
        lambda _, response: response["reasoning"]["summary"] == "auto",
    ),
    "reasoning.context": Sample({"reasoning": {"context": "all_turns"}}),
    "reasoning.mode": Sample({"reasoning": {"mode": "pro"}}),
    "tools.format": Sample(
        {"tools": [{"type": "custom", "name": "x", "format": _DIGITS}]},
        lambda sent, _: "[0-9]+" in sent["tools"][0]["function"]["description"],
    ),
    "stream_options.include_obfuscation": Sample(
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        lambda _, response: response["status"] == "completed",
    ),
}

TOOL_OPTIONS: dict[str, Any] = {
    "strict": True,
    "output_schema": {"type": "object"},
    "defer_loading": True,
    "allowed_callers": ["programmatic"],
    "async": True,
}


def _function(sent: Json) -> Json:
    return sent["tools"][0]["function"]


def tool_option(name: str, value: Any, seen: Seen = lambda _, __: False) -> Sample:
    tool = {**DECLARED["function"], name: value}
    return Sample({"tools": [tool]}, seen, ignored=f"tools[0].{name}")


OPTIONS.update(
    {f"tools[].{name}": tool_option(name, value) for name, value in TOOL_OPTIONS.items()}
)
OPTIONS["tools[].strict"].seen = lambda sent, _: _function(sent).get("strict") is True
OPTIONS["tools[].async"].seen = lambda sent, response: (
    _function(sent)["name"] == "x" and response["tools"][0]["async"] is True
)

INCLUDES: dict[str, Sample] = {
    name: Sample({"include": [name]}, lambda _, response: response["status"] == "completed")
    for name in capabilities.INCLUDES
}
INCLUDES["message.output_text.logprobs"] = Sample(
    {"include": ["message.output_text.logprobs"]},
    lambda sent, _: sent.get("logprobs"),
    ignored="include[0]",
)


def part(seen: Seen, param: str = "", **members: Any) -> Sample:
    """A user's message of a text and the part."""
    content = [{"type": "input_text", "text": "See:"}, members]
    path = f"input[0].content[1]{param}"
    return Sample(
        {"input": [{"role": "user", "content": content}]}, seen, path, "unsupported_value"
    )


def _second(sent: Json) -> Json:
    return sent["messages"][0]["content"][1]


PNG = "data:image/png;base64,AAAA"
PDF = "data:application/pdf;base64,AAAA"
PARTS: dict[str, Sample] = {
    "input_text": part(lambda sent, _: _second(sent)["text"] == "a", type="input_text", text="a"),
    "output_text": Sample(
        {
            "input": [
                {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
                {"role": "user", "content": "b"},
            ]
        },
        lambda sent, _: sent["messages"][0] == {"role": "assistant", "content": "a"},
    ),
    "refusal": Sample(
        {
            "input": [
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "a"}]},
                {"role": "user", "content": "b"},
            ]
        },
        lambda sent, _: sent["messages"][0] == {"role": "assistant", "content": "a"},
    ),
    "input_image.image_url": part(
        lambda sent, _: _second(sent)["image_url"] == {"url": PNG},
        type="input_image",
        image_url=PNG,
    ),
    "input_image.file_id": part(
        lambda _, __: False, ".file_id", type="input_image", file_id="file_1"
    ),
    "input_file.file_data": part(
        lambda sent, _: _second(sent)["file"] == {"filename": "a.pdf", "file_data": PDF},
        type="input_file",
        filename="a.pdf",
        file_data=PDF,
    ),
    "input_file.file_url": part(
        lambda sent, _: _second(sent)["file"]["file_data"] == "https://a.example/b.pdf",
        type="input_file",
        file_url="https://a.example/b.pdf",
    ),
    "input_file.file_id": part(
        lambda _, __: False, ".file_id", type="input_file", file_id="file_1"
    ),
    "input_audio": part(
        lambda sent, _: _second(sent)["input_audio"] == {"data": "AAAA", "format": "wav"},
        type="input_audio",
        input_audio={"data": "AAAA", "format": "wav"},
    ),
    "computer_screenshot": Sample(
        {"input": SAMPLES["computer_call_output"][0]},
        lambda sent, _: sent["messages"] == SAMPLES["computer_call_output"][1],
        "input[1].output",
        "unsupported_value",
    ),
}


def item(name: str) -> Sample:
    if name in REFUSED:
        return Sample(
            {"input": [REFUSED[name]]}, lambda _, __: False, "input[0].type", "unsupported_value"
        )
    if name == "item_reference":
        return Sample({}, lambda sent, _: sent["messages"][0]["content"] == "Hello!", refers=True)
    if name == "reasoning":
        said = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [_THOUGHT]}
        items: list[Json] = [said, {"role": "assistant", "content": "a"}]
        return Sample(
            {"input": items}, lambda sent, _: sent["messages"][0]["reasoning_content"] == "Hm."
        )
    items, messages = SAMPLES[name]
    return Sample(
        {"input": [*items, {"role": "user", "content": "Go on"}]},
        lambda sent, _: sent["messages"] == [*messages, {"role": "user", "content": "Go on"}],
    )


_THOUGHT = {"type": "reasoning_text", "text": "Hm."}
ITEMS = {name: item(name) for name in [*SAMPLES, *REFUSED, "reasoning", "item_reference"]}
ITEMS["slug:name_call"] = Sample(
    {"input": [CALLED, {"role": "user", "content": "Go on"}]},
    lambda sent, _: sent["messages"][:-1] == called("ext_1", "acme__add", {"a": 2, "b": 3}, "5"),
)


def tool(name: str) -> Sample:
    if name == "mcp":  # whose server is nowhere: tests/tools/test_mcp.py has one
        return Sample(
            {"tools": [DECLARED[name]]},
            lambda _, response: response["output"][0]["type"] == "mcp_list_tools",
        )
    wire = WIRE.get(name, name)
    return Sample(
        {"tools": [DECLARED[name]]},
        lambda sent, _: wire in [tool["function"]["name"] for tool in sent.get("tools", [])],
        "tools[0].type",
        "unsupported_value",
        ignored="tools[0]",
    )


SAMPLE_OF: dict[str, dict[str, Sample]] = {
    "field": FIELDS,
    "option": OPTIONS,
    "include": INCLUDES,
    "part": PARTS,
    "item": ITEMS,
    "tool": {name: tool(name) for name in capabilities.TOOLS},
}


@dataclass
class Case:
    """A row at a server where its flag is set, or is not."""

    row: Capability
    verdict: Verdict
    flags: Json = field(default_factory=dict[str, Any])
    known_context: bool = False

    def __str__(self) -> str:
        return f"{self.row.kind}-{self.row.name}-{self.verdict}"


def _set(row: Capability) -> Any:
    support = row.chat
    if support.values:
        return support.values[0]
    return "reasoning_effort" if support.flag == "reasoning_effort" else True


def _unset(row: Capability) -> Any:
    if row.chat.values == ("url",):
        return "data"
    return "none" if row.chat.values or row.chat.flag == "reasoning_effort" else False


def _cases(row: Capability) -> list[Case]:
    support = row.chat
    if support.otherwise is None:
        flags: Json = {"reasoning_replay": "reasoning_content"} if row.name == "reasoning" else {}
        return [Case(row, support.verdict, flags)]
    if support.flag is None:
        return [Case(row, support.verdict, known_context=True), Case(row, support.otherwise)]
    return [
        Case(row, support.verdict, {support.flag: _set(row)}),
        Case(row, support.otherwise, {support.flag: _unset(row)}),
    ]


CASES = [case for row in ROWS for case in _cases(row)]


async def _asked(case: Case, sample: Sample) -> tuple[Answer, list[Json]]:
    """The answer, and the requests that the model's server received for it."""
    options: Json = {"upstream_options": {"flags": case.flags}}
    if "slug:name" in case.row.name:
        options["tools"] = {"modules": [MODULE]}
    if case.row.kind == "tool" and "web_search" in case.row.name and case.verdict == "translated":
        options["tools"] = {"web_search": {"engine": "ddgs"}}
    if (case.row.name, case.verdict) == ("tool_search", "translated"):
        sample = dataclasses.replace(
            sample, fields={"tools": [{"type": "tool_search", "execution": "client"}]}
        )
    if case.known_context:
        options["adjust"] = context_of(5000)
    async with gateway(Reply(Text("Hello!", logprobs=True)), **options) as (api, model):
        fields = dict(sample.fields)
        if sample.continues:
            before = await api.create()
            fields["previous_response_id"] = before.response["id"]
            model.requests.clear()
        if sample.refers:
            said = (await api.create()).response["output"][0]
            reference = {"type": "item_reference", "id": said["id"]}
            fields["input"] = [reference, {"role": "user", "content": "Go on"}]
            model.requests.clear()
        if sample.converses:
            body = b'{"items":[{"role":"user","content":"Hi"}]}'
            made = await api.send("POST", "/v1/conversations", body)
            fields["conversation"] = made.json["id"]
        answer = await api.create(**fields)
        return answer, [chat.json for chat in model.chats]


def _ignored(answer: Answer) -> list[str]:
    return [name for name in answer.headers.get("x-bascule-ignored", "").split(",") if name]


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_row_is_true(case: Case) -> None:
    sample = SAMPLE_OF[case.row.kind][case.row.name]
    answer, sent = await _asked(case, sample)
    if case.verdict == "refused":
        assert answer.status == 400
        assert (answer.error["param"], answer.error["code"]) == (sample.param, sample.code)
        assert sent == []
        return
    assert answer.status == 200, answer.body
    name = sample.ignored or case.row.name
    if case.verdict == "tolerated":
        assert name in _ignored(answer)
        assert not sample.seen(sent[0], answer.response)
    else:
        assert name not in _ignored(answer)
        assert sample.seen(sent[0], answer.response)


def test_every_row_has_a_sample() -> None:
    for kind, samples in SAMPLE_OF.items():
        assert samples.keys() == {row.name for row in ROWS if row.kind == kind}


@pytest.mark.requirement("capabilities:rows")
async def test_neutral_values_are_neither_refused_nor_named() -> None:
    flags = {"service_tier": False, "logprobs": False, "parallel_tool_calls": False}
    async with gateway(upstream_options={"flags": flags}) as (api, _):
        for row in ROWS:
            for value in row.neutral if row.kind == "field" else ():
                fields: Json = {row.name: msgspec.json.decode(value), "tools": [WEATHER]}
                answer = await api.create(**fields)
                assert (answer.status, _ignored(answer)) == (200, []), row.name


def test_every_field_that_is_read_has_a_row() -> None:
    assert READ.keys() | CHECKED.keys() <= capabilities.FIELDS.keys()
    unread = capabilities.FIELDS.keys() - READ.keys() - CHECKED.keys()
    for name in unread:
        assert capabilities.FIELDS[name].chat.always("refused"), name
