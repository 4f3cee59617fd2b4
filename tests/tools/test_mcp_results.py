"""What becomes of a result's structured content beside its texts."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bascule.services.mcp import Content, McpResult
from bascule.toolkit.outcome import Output
from bascule.tools.mcp_results import outcome_of

pytestmark = pytest.mark.requirement("mcp:results:structured")


@pytest.mark.parametrize(
    ("texts", "structured", "told"),
    [
        ([], {"a": 1}, '{"a":1}'),
        (['{ "a": 1 }'], {"a": 1}, '{ "a": 1 }'),
        (["One of a."], {"a": 1}, 'One of a.\n{"a":1}'),
        (["three"], {"result": "three"}, "three"),
        (["3"], {"result": 3}, "3"),
        (["one", "two"], {"result": ["one", "two"]}, "one\ntwo"),
        (["one"], {"result": ["one", "two"]}, 'one\n{"result":["one","two"]}'),
        (["a"], {"result": "a", "more": 1}, 'a\n{"result":"a","more":1}'),
    ],
)
def test_it_is_said_once(texts: list[str], structured: Any, told: str) -> None:
    content = [Content("text", text=text) for text in texts]
    outcome = outcome_of(McpResult(content, Raw(msgspec.json.encode(structured))), images=False)
    assert isinstance(outcome, Output)
    assert outcome.output == told
    assert msgspec.json.decode(outcome.public) == told
