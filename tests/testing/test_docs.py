"""The examples of docs/testing.md run, and its tables name what there is."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from bascule.testing import DIALECTS, load_script, weak
from bascule.testing.step_data import KINDS
from tests.testing.fold import fold
from tests.testing.http import ask

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
TESTS = [code for kind, code in BLOCKS if kind == "python" and "async def test_" in code]
SCRIPTS = [(kind, code) for kind, code in BLOCKS if code not in TESTS]


@pytest.mark.parametrize("code", TESTS, ids=lambda code: re.findall(r"def (test_\w+)", code)[0])
async def test_examples(code: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(code, "docs/testing.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    await tests[0]()


async def test_the_json_script(tmp_path: Path) -> None:
    ((_, code),) = [block for block in SCRIPTS if block[0] == "json"]
    path = tmp_path / "script.json"
    path.write_text(code)
    async with load_script(path).server() as server:
        answers = [await ask(server, stream=True, model="small") for _ in range(4)]
    assert answers[0].done
    calls = fold(answers[1].events)["message"]["tool_calls"]
    assert [call["name"] for call in calls] == ["get_weather", "get_time"]
    assert not answers[2].complete
    assert (answers[3].status, answers[3].headers["retry-after"]) == (429, "1")


async def test_the_python_script(tmp_path: Path) -> None:
    ((_, code),) = [block for block in SCRIPTS if block[0] == "python"]
    path = tmp_path / "script.py"
    path.write_text(code)
    async with load_script(path).server() as server:
        answer = await ask(server)
    assert answer.json["choices"][0]["message"]["content"] == "There are no tools."


def test_every_block_is_run() -> None:
    assert len(BLOCKS) == len(TESTS) + 2


@pytest.mark.parametrize("name", [*KINDS, *DIALECTS])
def test_every_step_and_dialect_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_weakness_is_named() -> None:
    functions = inspect.getmembers(weak, inspect.isfunction)
    ours = [name for name, value in functions if value.__module__ == weak.__name__]
    public = [name for name in ours if not name.startswith("_") and name != "written_call"]
    assert [name for name in public if f"`{name}" not in PAGE] == []
