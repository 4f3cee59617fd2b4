"""The functions of the Berkeley Function Calling Leaderboard, from declaration to restored call: whatever
they are called and whatever their schemas hold, nothing of their meaning changes on the way."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, Request
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

DATA = Path(__file__).parents[1] / "data" / "bfcl" / "questions.jsonl.gz"

_TYPES = {
    "dict": "object",
    "HashMap": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "Boolean": "boolean",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "String": "string",
    "char": "string",
}
"""The data's words for the types of JSON schema; `any` has no type."""


class Question(msgspec.Struct):
    category: str
    id: str
    functions: list[Json]
    calls: list[Json]


def questions() -> dict[str, list[Question]]:
    by_category: dict[str, list[Question]] = {}
    for line in gzip.decompress(DATA.read_bytes()).splitlines():
        question = msgspec.json.decode(line, type=Question)
        if not question.functions:
            continue  # an irrelevant question may have none
        by_category.setdefault(question.category, []).append(question)
    return by_category


QUESTIONS = questions()


def schema(value: Any) -> Any:
    """A schema in the words of JSON schema."""
    if isinstance(value, list):
        return [schema(one) for one in value]
    if not isinstance(value, dict):
        return value
    changed = {key: schema(member) for key, member in value.items()}
    type_ = value.get("type")
    if isinstance(type_, str):
        changed["type"] = _TYPES.get(type_, type_)
        if changed["type"] in ("any", ""):
            del changed["type"]
    return changed


def declared(function: Json) -> Json:
    return {
        "type": "function",
        "name": function["name"],
        "description": function["description"],
        "parameters": schema(function["parameters"]),
    }


def tools_of(question: Question, form: str) -> list[Json]:
    """The question's functions, top-level or in a namespace; the same name counts once."""
    functions = list({f["name"]: declared(f) for f in question.functions}.values())
    if form == "functions":
        return functions
    return [{"type": "namespace", "name": "bfcl", "description": "", "tools": functions}]


def answers(request: Request) -> Reply:
    """Calls as the question's answer has them, by the names that the model was told."""
    wanted = msgspec.json.decode(request.json["messages"][-1]["content"])
    told = [tool["function"]["name"] for tool in request.json["tools"]]
    calls = [Call(told[n], arguments, id=f"call_{i}") for i, (n, arguments) in enumerate(wanted)]
    return Reply(*calls)


@pytest.fixture(scope="module")
async def api(anyio_backend: str) -> AsyncIterator[tuple[Api, ModelServer]]:
    async with ModelServer(answers) as model, serving(model.url) as api:
        yield api, model


@pytest.mark.requirement("tool:function:meaning")
@pytest.mark.parametrize("form", ["functions", "namespace"])
@pytest.mark.parametrize("category", QUESTIONS)
async def test_every_function_of_a_category(
    api: tuple[Api, ModelServer], category: str, form: str
) -> None:
    client, model = api
    for question in QUESTIONS[category]:
        tools = tools_of(question, form)
        functions = tools if form == "functions" else tools[0]["tools"]
        numbers = {function["name"]: n for n, function in enumerate(functions)}
        # Questions without an answer call every function, with nothing.
        calls = question.calls or [{"name": name, "arguments": {}} for name in numbers]
        text = msgspec.json.encode([[numbers[c["name"]], c["arguments"]] for c in calls]).decode()
        model.requests.clear()
        answer = await client.create(input=text, tools=tools, store=False)
        assert answer.status == 200, (question.id, answer.body)
        _told_the_same(question, functions, model.chats[0].json["tools"])
        output = answer.response["output"]
        assert [item["name"] for item in output] == [call["name"] for call in calls], question.id
        for item, call in zip(output, calls, strict=True):
            assert msgspec.json.decode(item["arguments"]) == call["arguments"], question.id
            assert item.get("namespace") == (None if form == "functions" else "bfcl")
        echoed = answer.response["tools"]
        shown = echoed if form == "functions" else echoed[0]["tools"]
        assert [tool["name"] for tool in shown] == list(numbers)


def _told_the_same(question: Question, functions: list[Json], told: list[Json]) -> None:
    names = [tool["function"]["name"] for tool in told]
    assert len(set(names)) == len(names) == len(functions)
    for function, tool in zip(functions, told, strict=True):
        said = tool["function"]
        assert len(said["name"]) <= 64
        assert said["name"].replace("_", "").replace("-", "").isalnum()
        assert said["name"].isascii()
        assert said["description"] == function["description"], question.id
        assert said["parameters"] == function["parameters"], question.id
        kept = list(function["parameters"].get("properties", {}))
        assert list(said["parameters"].get("properties", {})) == kept, question.id


def test_all_categories_are_there() -> None:
    assert len(QUESTIONS) == 19
    assert sum(len(found) for found in QUESTIONS.values()) == 3721
