"""What docs/web-search.md shows is what happens."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.config import convert
from bascule.services.search.engines import ENGINES
from bascule.tools import web_search_text as text
from bascule.tools.all import all_handlers
from bascule.tools.web_search_options import WebSearchOptions
from tests.process import ROOT
from tests.services.search.fakes import Hit, SearxngFake
from tests.tools.web_gateway import searched, web

PAGE = (Path(ROOT) / "docs" / "web-search.md").read_text()
CONFIGURATIONS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
REQUEST, OUTPUT = (
    msgspec.json.decode(b) for b in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
)


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
async def test_the_request_gives_the_answer(stream: bool) -> None:
    engine = SearxngFake(
        Hit("https://example.org/bridges", "Bridges of Cork", "Of 1794."),
        Hit("https://example.com/", "Blocked", "x"),
        Hit("https://example.net/lee", "The river Lee", "Two channels."),
    )
    said = "The oldest is of 1794 [cite:1]."
    async with web(searched(query="bridges of Cork age"), said, engine=engine) as made:
        answer = await made.api.create(**REQUEST, stream=stream)
    output: list[Any] = answer.response["output"]
    for item, shown in zip(output, OUTPUT, strict=True):
        item["id"] = f"{item['id'].partition('_')[0]}_..."
        assert item == shown


@pytest.mark.anyio
async def test_the_configuration_is_right() -> None:
    tree = tomllib.loads("\n".join(CONFIGURATIONS))
    handlers = all_handlers(convert(tree, {}))
    assert [health.name for health in handlers.health()] == ["searxng"]
    await handlers.aclose()


def test_the_options_are_all_there() -> None:
    table = PAGE.split("| `[tools.web_search]` |", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    names = [name.strip("`") for row in rows for name in row[0].split(", ")]
    assert set(names) == set(WebSearchOptions.__struct_fields__) - {"parallel"}
    defaults = {f.name: f.default for f in msgspec.structs.fields(WebSearchOptions)}
    for row in rows:
        name, said = row[0].strip("`"), row[1].strip("`")
        if name in ("engine_timeout", "page_timeout", "max_page_bytes"):
            assert defaults[name] == float(said), name


def test_the_engines_are_all_there() -> None:
    table = PAGE.split("| `engine` |", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`") for row in rows} == set(ENGINES)
    for row in rows:
        needs = ENGINES[row[0].strip("`")].needs
        assert needs is None or row[1].startswith(f"`{needs}`")


def test_the_sizes_are_right() -> None:
    for sizes in (text.RESULTS, text.PASSAGE, text.PAGE):
        low, medium, high = (f"{sizes[size]:,}" for size in ("low", "medium", "high"))
        assert re.search(rf"{low}[^.]{{0,20}}?,\s+{medium} or {high}", PAGE), sizes
