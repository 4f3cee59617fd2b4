"""Script files: what they may say, and errors that name the place."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.testing import ScriptError, load_script
from tests.testing.fold import fold, of_whole
from tests.testing.http import ask, get

pytestmark = pytest.mark.anyio


def write(folder: Path, data: Any, name: str = "script.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else msgspec.json.encode(data).decode())
    return path


EVERY_STEP = [
    "plain",
    {"text": "more"},
    {"text": {"content": "and more", "chunks": "words", "logprobs": True}},
    {"reasoning": "Hm."},
    {"reasoning": {"details": [{"type": "reasoning.text", "text": "x"}]}},
    {"refusal": ["n", "o"]},
    {"call": {"name": "f", "arguments": {"a": 1}, "split": 2, "layout": "name_last"}},
    {"interleave": [{"call": "g"}, "between"]},
    {"together": ["x", {"call": {"name": "h", "omit": ["id"]}}]},
    {"delta": {"fields": {"reasoning_opaque": "s"}, "message": {}}},
    {"delay": 0},
    {"comment": True},
    {"finish": "tool_calls"},
    {"usage": {"prompt": None, "completion": 2, "place": "own"}},
]


async def test_every_content_step_in_json(tmp_path: Path) -> None:
    path = write(tmp_path, {"replies": [EVERY_STEP], "then": "repeat"})
    async with load_script(path).server() as server:
        streamed = await ask(server, stream=True)
        whole = await ask(server)
    assert fold(streamed.events)["message"]["content"] == "plainmoreand morebetweenx"
    assert [c["name"] for c in of_whole(whole.json)["message"]["tool_calls"]] == ["f", "g", "h"]
    assert whole.json["choices"][0]["finish_reason"] == "tool_calls"
    assert b": OPENROUTER PROCESSING\n\n" in streamed.body


async def test_every_wire_step_in_json(tmp_path: Path) -> None:
    steps = [
        {"chunk": {"fields": {"choices": []}}},
        {"data": {"content": "x", "event": "y"}},
        {"half_line": "z"},
        {"bad_json": True},
        {"flood": {"size": 3, "letter": "q"}},
        {"raw": "å"},
        {"gate": "g"},
        {"stream_error": {"message": "m", "code": None}},
        {"eof": True},
        {"cut": {"reset": True}},
        {"stall": True},
    ]
    loaded = load_script(write(tmp_path, [steps]))
    assert len(loaded.script[0].steps) == len(steps)
    async with loaded.server() as server:
        server.open("g")
        answer = await ask(server, stream=True)
    assert answer.body.startswith(b'data: {"choices":[]}\n\nevent: y\ndata: x\n\ndata: zdata: {')
    assert "qqqå".encode() in answer.body
    assert answer.complete


async def test_replies_and_options_in_json(tmp_path: Path) -> None:
    data = {
        "replies": [
            "text",
            {"http": {"status": 429, "json": {"error": {}}, "headers": {"retry-after": "1"}}},
            {"http": {"status": 502, "text": "<html>", "content_type": "text/html"}},
            {"http": {"status": 500}},
            {
                "steps": [{"call": "f"}],
                "omit": ["done"],
                "wire": {"line_end": "\r\n"},
                "dialect": "kimi",
                "headers": {"x": "y"},
                "model": "other",
            },
            {"steps": ["x"], "dialect": {"opening": None}},
        ],
        "dialect": "vllm",
        "models": ["one"],
        "unknown_model": "refused",
        "health_failures": 1,
    }
    async with load_script(write(tmp_path, data)).server() as server:
        assert (await get(server, "/health")).status == 503
        assert (await get(server, "/health")).status == 200
        assert (await ask(server)).status == 404
        answers = [await ask(server, model="one", stream=True) for _ in range(6)]
    assert [answer.status for answer in answers] == [200, 429, 502, 500, 200, 200]
    assert answers[1].headers["retry-after"] == "1"
    assert answers[2].headers["content-type"] == "text/html"
    assert b"functions.f:0" in answers[4].body
    assert b"\r\n\r\n" in answers[4].body
    assert answers[4].headers["x"] == "y"
    assert answers[5].deltas[0] == {"content": "x"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[", "not JSON: "),
        ("3", "a list of replies, or an object with `replies`"),
        ({"replies": {}}, "replies: a list is needed"),
        ({"replies": [], "then": "stop"}, "then: Invalid enum value 'stop'"),
        ({"replies": [], "thn": "fail"}, "unknown field `thn`"),
        ({"replies": [], "script": []}, "unknown field `script`"),
        ({"replies": [], "dialect": "x"}, "dialect: no dialect 'x'; there are plain, openai"),
        ({"replies": [], "models": [1]}, "models[0]: Expected `str`, got `int`"),
        ([3], "replies[0]: a reply is a string, a list of steps or an object"),
        ([{}], "replies[0]: Object missing required field `steps`"),
        ([{"steps": [], "omit": ["x"]}], "replies[0].omit[0]: Invalid enum value 'x'"),
        ([{"steps": [], "wire": {"gruop": 1}}], "replies[0].wire: Object contains unknown field"),
        ([{"steps": [], "dialect": "x"}], "replies[0].dialect: no dialect 'x'"),
        ([{"steps": [], "dialect": {"x": 1}}], "replies[0].dialect: Object contains unknown"),
        ([{"http": {"status": "x"}}], "replies[0].http.status: Expected `int`, got `str`"),
        ([["a", 3]], "replies[0][1]: a step is a string or an object with one key"),
        ([["a", {"a": 1, "b": 2}]], "replies[0][1]: a step is a string or an object with one"),
        ([{"steps": ["a", {"say": 1}]}], "replies[0].steps[1]: no step `say`; there are text,"),
        ([[{"call": {"nam": "f"}}]], "replies[0][0].call: Object contains unknown field `nam`"),
        ([[{"call": {"name": 3}}]], "replies[0][0].call.name: Expected"),
        ([[{"text": 3}]], "replies[0][0].text.content: Expected"),
        ([[{"together": "x"}]], "replies[0][0].together: a list of content steps is needed"),
        ([[{"interleave": [{"cut": True}]}]], "replies[0][0].interleave[0]: only content steps"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, data: Any, message: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(ScriptError) as caught:
        load_script(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


async def test_a_python_file_may_hold_a_list_or_a_rule(tmp_path: Path) -> None:
    listed = write(
        tmp_path,
        "from bascule.testing import Call, Reply\n"
        "script = ['one', Reply(Call('f'))]\nmodels = ['a']\ndialect = 'kimi'\n",
        "listed.py",
    )
    async with load_script(listed).server() as server:
        assert (await ask(server)).json["choices"][0]["message"]["content"] == "one"
        assert b"functions.f:0" in (await ask(server)).body
        assert (await get(server, "/v1/models")).json["data"][0]["id"] == "a"
    ruled = write(tmp_path, "def script(request):\n    return request.model\n", "ruled.py")
    async with load_script(ruled).server() as server:
        assert (await ask(server)).json["choices"][0]["message"]["content"] == "m"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "defines no `script`"),
        ("1/0", "cannot be run: ZeroDivisionError"),
        ("script = 3", "script: a list of replies or a function, not int"),
        ("script = ['a', {}]", "script[1]: a reply, not dict"),
        ("script = []\nthen = 3", "then: "),
        ("script = []\ndialect = 'x'", "dialect: no dialect 'x'"),
    ],
)
def test_errors_of_python_files(tmp_path: Path, source: str, message: str) -> None:
    path = write(tmp_path, source, "script.py")
    with pytest.raises(ScriptError) as caught:
        load_script(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("no.json", "no.py"):
        with pytest.raises(ScriptError, match="No such file"):
            load_script(tmp_path / name)


@pytest.mark.parametrize("with_script", [True, False])
async def test_the_mock_process_says_where_it_listens(tmp_path: Path, with_script: bool) -> None:
    script = str(write(tmp_path, ["hello"])) if with_script else None
    code = f"import asyncio; from bascule.testing.mock import serve_mock as s; asyncio.run(s({script!r}))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("listening on http://127.0.0.1:")
        port = int(line.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (b"mock-model" if with_script else b"bascule-demo") in await reader.read()
        writer.close()
        await writer.wait_closed()
    finally:
        process.kill()
        await process.wait()
