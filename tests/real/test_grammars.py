"""Custom tools with a grammar before a real model server: what comes matches, whatever the model knows."""

import re
from typing import Any

import pytest

from bascule.protocols.grammar import Grammar, Syntax
from bascule.toolkit.grammar import TextGrammar
from bascule.tools.free_text import FreeText
from tests.conformance.stream import check_answer, check_stream
from tests.real.conftest import Real
from tests.serving import Api
from tests.tools.grammars import PATCH

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(600)]

Json = dict[str, Any]

GRAMMARS: dict[str, tuple[Syntax, str]] = {
    "date": ("regex", r"^(19|20)\d{2}-[01]\d-[0-3]\d$"),
    "emoji": ("regex", '(?i)ok[🙂-🙏]\\."\\x41'),
    "sum": ("lark", 'start: e\ne: e "+" t | t\nt: /[0-9]{1,2}/ | "(" e ")"'),
    "select": (
        "lark",
        (
            'start: "select"i SPACE NAME ("," NAME)~0..2 SPACE "from"i SPACE NAME ";"\n'
            'NAME: /[a-z]{1,8}/\nSPACE: " "\n'
        ),
    ),
    "any": ("regex", r"say: [\s\S]{1,9}[^\s]\S?"),
    "escapes": ("lark", 'start: "\\"[\\\\]\\n\\t" LF /[^"\\\\\\n]{3}/\n%import common.LF'),
}


@pytest.fixture(autouse=True)
def constrains(real: Real, request: pytest.FixtureRequest) -> None:
    """Servers are held to grammars on Chat Completions, and this one is known to obey."""
    if not real.small or request.node.callspec.params["api"] != "chat":
        pytest.skip("not known to hold its text to a grammar")


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_input_matches_its_grammar(api: Api, name: str, stream: bool) -> None:
    syntax, definition = GRAMMARS[name]
    tool: Json = {
        "type": "custom",
        "name": name,
        "description": f"Takes a {name}.",
        "format": {"type": "grammar", "syntax": syntax, "definition": definition},
    }
    answer = await api.create(
        tools=[tool],
        tool_choice={"type": "custom", "name": name},
        input=f"Give me any {name}.",
        max_output_tokens=200,
        stream=stream,
    )
    response = check_stream(answer) if stream else check_answer(answer)
    (call,) = response["output"]
    assert (call["type"], call["name"]) == ("custom_tool_call", name)
    if response["status"] == "incomplete":
        return
    grammar = TextGrammar(Grammar(syntax, definition), "input", FreeText)
    check = grammar.check()
    assert check is not None
    assert check.finish(grammar.arguments(call["input"])) is None


async def test_a_patch_begins_as_its_grammar_says(api: Api) -> None:
    tool: Json = {
        "type": "custom",
        "name": "patch",
        "format": {"type": "grammar", "syntax": "lark", "definition": PATCH},
    }
    answer = await api.create(
        tools=[tool],
        tool_choice={"type": "custom", "name": "patch"},
        input="Add the file a.txt.",
        max_output_tokens=60,
        stream=True,
    )
    (call,) = check_stream(answer)["output"]
    assert re.match(r"\*\*\* Begin Patch\n\*\*\* (Add|Delete) File: ", call["input"])
