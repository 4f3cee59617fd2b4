"""docs/plugins.md: its files are those of the example, and its first tool is served and called."""

import re
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from anyio.from_thread import start_blocking_portal

from bascule import plugin
from bascule.plugin.call_item import CallItem
from bascule.testing.demo import demo_server
from tests.docs.blocks import blocks
from tests.process import ROOT, Running, finished, gateway

PAGE = ROOT / "docs/plugins.md"
EXAMPLE = ROOT / "examples/weather_tool"
TEXTS = {
    kind: [block.text for block in blocks(PAGE) if block.kind == kind and block.why is None]
    for kind in ("python", "toml", "bash", "json")
}
ADDRESS = "http://127.0.0.1:8787"


def test_the_blocks_are_of_kinds_that_are_run() -> None:
    assert sum(map(len, TEXTS.values())) == len(blocks(PAGE)) - 1


def test_the_package_is_the_example() -> None:
    assert TEXTS["toml"][1] == (EXAMPLE / "pyproject.toml").read_text()
    assert TEXTS["python"][1] == (EXAMPLE / "acme_weather.py").read_text()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "my_tools.py").write_text(TEXTS["python"][0])
    config = folder / "bascule.toml"
    config.write_text(TEXTS["toml"][0])
    server = demo_server()
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(server),
        gateway(folder, "--config", str(config), "--upstream", server.url) as running,
    ):
        yield running


def _curl(served: Running, folder: Path, *, stream: bool) -> str:
    (script,) = TEXTS["bash"]
    script = script.replace(ADDRESS, served.url)
    if stream:
        script = script.replace('"input"', '"stream": true, "input"')
    done = finished(folder, ["bash", "-euo", "pipefail", "-c", script])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_function_is_called(served: Running, tmp_path: Path) -> None:
    response = msgspec.json.decode(_curl(served, tmp_path, stream=False))
    item = response["output"][0]
    assert item["type"] == "acme:stock_call"
    assert item["status"] == "completed" or item["error"]["code"] == "unknown_part"
    assert (response["status"], response["output"][-1]["type"]) == ("completed", "message")


def test_the_table_of_events(served: Running, tmp_path: Path) -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    table = [name for row in rows for name in re.findall(r"`([\w.:]+)`", row)]
    said = _curl(served, tmp_path, stream=True).split("response.output_item.done", 1)[0]
    names = re.findall(r"^event: (.+)$", said, re.MULTILINE)
    seen = [name.replace("stock", "weather") for name in dict.fromkeys(names)]
    end = seen[-1].removeprefix("acme:weather_call")
    assert table[-3:] == ["acme:weather_call.completed", ".failed", "response.output_item.done"]
    assert end in (".completed", ".failed")
    assert seen[2:-1] == table[:-3]


def test_the_item() -> None:
    item = msgspec.json.decode(TEXTS["json"][0])
    assert tuple(item) == CallItem.__struct_fields__


def test_what_may_be_relied_upon_is_explained() -> None:
    text = PAGE.read_text()
    assert [name for name in plugin.__all__ if name not in text] == []
