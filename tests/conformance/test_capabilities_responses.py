"""The other column of the capability matrix: every row, proved by a request to a server that speaks
Responses."""

from collections.abc import Sequence
from typing import Any

import pytest

from bascule.protocols.capability import Capability
from bascule.protocols.capability_rows import ROWS
from bascule.testing import ModelServer, responded
from tests.conformance.test_capabilities import FIELDS, OPTIONS, PARTS
from tests.plugin.calling import CALLED, MODULE
from tests.serving import Answer, serving
from tests.tools.declarations import DECLARED, WIRE
from tests.tools.history_samples import REFUSED, SAMPLES

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

SAID: Json = {
    "id": "msg_up",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello!", "annotations": [], "logprobs": []}],
}
OWN = frozenset(
    {
        *("model", "input", "previous_response_id", "conversation", "store", "stream"),
        *("stream_options", "tools", "tool_choice", "include"),
    }
)
"""Fields that the gateway honours by itself, or says in its own words."""


async def asked(
    fields: Json, flags: Json | None = None, modules: Sequence[str] = ()
) -> tuple[Answer, list[Json]]:
    """The answer, and what the model's server received."""
    options = {"protocol": "responses", "flags": flags or {}}
    async with (
        ModelServer(responded(SAID), then="repeat") as model,
        serving(model.url, upstream_options=options, tools={"modules": list(modules)}) as api,
    ):
        answer = await api.create(**fields)
        return answer, [chat.json for chat in model.chats]


def rows(kind: str) -> list[Any]:
    return [pytest.param(row, id=row.name) for row in ROWS if row.kind == kind]


def _plugins(row: Capability) -> tuple[Json, list[str]]:
    """The flag with which the server takes it as it is, and the modules that bring the type."""
    if "slug:name" in row.name:
        return {"hosted_tools": ["acme:add"]}, [MODULE]
    return {"hosted_tools": "all"}, []


def ignored(answer: Answer) -> list[str]:
    return answer.headers.get("x-bascule-ignored", "").split(",")


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("row", rows("field"))
async def test_fields(row: Capability) -> None:
    if row.name == "conversation":
        return  # tests/gateway/test_conversations.py proves what becomes of it
    sample = FIELDS[row.name]
    answer, sent = await asked(sample.fields)
    if row.responses.always("refused"):
        assert (answer.status, answer.error["param"]) == (400, row.name)
        return
    assert answer.status == 200, answer.body
    assert row.name not in ignored(answer)
    if row.name not in OWN:
        assert sent[0][row.name] == sample.fields[row.name]


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("row", rows("option"))
async def test_options(row: Capability) -> None:
    if row.name.startswith("tools[]"):
        await _tool_option(row)
        return
    sample, support = OPTIONS[row.name], row.responses
    field, _, member = row.name.partition(".")
    on = {support.flag: support.values[0] if support.values else True} if support.flag else {}
    answer, sent = await asked(sample.fields, on)
    assert answer.status == 200
    if field not in OWN:
        assert sent[0][field][member] == sample.fields[field][member]
    if support.flag is None:
        return
    off = {support.flag: "none" if support.values else False}
    answer, sent = await asked(sample.fields, off)
    if support.otherwise == "refused":
        assert (answer.status, answer.error["param"]) == (400, row.name)
    else:
        assert member not in sent[0][field]
        assert row.name in ignored(answer)


async def _tool_option(row: Capability) -> None:
    sample, flag = OPTIONS[row.name], row.responses.flag
    answer, sent = await asked(sample.fields, {flag: True} if flag else {})
    assert answer.status == 200
    assert sent[0]["tools"] == sample.fields["tools"]
    assert ignored(answer) == [""]
    if flag is not None:
        answer, sent = await asked(sample.fields, {flag: False})
        assert row.name.removeprefix("tools[].") not in sent[0]["tools"][0]
        assert ignored(answer) == [sample.ignored]


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("row", rows("include"))
async def test_includes(row: Capability) -> None:
    answer, sent = await asked({"include": [row.name]})
    assert answer.status == 200
    assert row.name in sent[0]["include"]


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("row", rows("part"))
async def test_parts(row: Capability) -> None:
    fields = PARTS[row.name].fields
    answer, sent = await asked(fields)
    assert answer.status == 200, answer.body
    assert sent[0]["input"] == fields["input"]


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("row", rows("item"))
async def test_items(row: Capability) -> None:
    if row.name in ("item_reference", "reasoning"):
        return  # tests/engine proves what becomes of these
    samples = {**SAMPLES, "slug:name_call": ([CALLED], [])}
    items = [REFUSED[row.name]] if row.name in REFUSED else samples[row.name][0]
    items = [*items, {"role": "user", "content": "Go on"}]
    answer, sent = await asked({"input": items}, *_plugins(row))
    assert answer.status == 200, answer.body
    assert sent[0]["input"] == items


@pytest.mark.requirement("capabilities:rows")
@pytest.mark.parametrize("row", rows("tool"))
async def test_tools(row: Capability) -> None:
    declared = DECLARED[row.name]
    hosted, modules = _plugins(row)
    answer, sent = await asked({"tools": [declared]}, hosted, modules)
    assert answer.status == 200, answer.body
    assert sent[0]["tools"] == [declared]
    flags: Json = {
        "hosted_tools": [],
        "custom_tools": False,
        "flatten_tool_search_family": True,
    }
    answer, sent = await asked({"tools": [declared]}, flags, modules)
    assert answer.status == 200, answer.body
    match row.responses.otherwise or row.responses.verdict:
        case "tolerated":
            assert "tools" not in sent[0]
            assert ignored(answer) == ["tools[0]"]
        case "translated" if row.name == "mcp":
            # Nobody can be asked for the functions here; tests/tools/test_mcp.py has a server.
            assert "tools" not in sent[0]
            assert answer.response["output"][0]["type"] == "mcp_list_tools"
        case "translated":
            (tool,) = sent[0]["tools"]
            assert (tool["type"], tool["name"]) == ("function", WIRE.get(row.name, row.name))
        case _:
            assert sent[0]["tools"] == [declared]
