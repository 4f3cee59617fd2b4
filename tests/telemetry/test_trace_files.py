"""`telemetry.trace_dir`: what went over the wire to a model server, without the keys."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from bascule.config import convert
from bascule.gateway.serve import check, make_client
from bascule.telemetry.redact import Redactor
from bascule.telemetry.trace_files import MAX_BODY, TraceFiles
from bascule.testing import Call, Cut, ModelServer, Reply, Text, http_error
from bascule.testing.script import Script
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

UP, KEY = "up-secret-value-1", "sk-client-secret-2"


async def _traced(folder: Path, script: Script, *requests: dict[str, Any]) -> dict[str, Any]:
    """The files after these requests, by name; closing the gateway ends the writing."""
    async with (
        ModelServer(script) as model,
        serving(
            model.url,
            adjust=install(LookupExecutor(found)),
            upstream_options={"api_key": UP},
            telemetry={"trace_dir": str(folder)},
            server={"api_keys": [KEY]},
        ) as api,
    ):
        for request in requests:
            await _create(api, request)
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.iterdir())}


async def _create(api: Api, request: dict[str, Any]) -> None:
    await api.create(headers={"authorization": f"Bearer {KEY}"}, **request)


@pytest.mark.requirement("operation:trace-dir")
async def test_each_round_is_written_down(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "traces"
    script = [Reply(Call("lookup", {"q": "x"})), Reply(Text("Found it"))]
    files = await _traced(folder, script, {"tools": [TOOL], "stream": True, "input": "Look!"})
    names = list(files)
    response_id = names[0].removesuffix("-001-answer.json")
    assert response_id.startswith("resp_")
    assert names == [
        f"{response_id}-{number}-{part}.json"
        for number in ("001", "002")
        for part in ("answer", "request")
    ]
    first, second = files[names[1]], files[names[3]]
    assert first["url"].endswith("/v1/chat/completions")
    assert first["headers"]["authorization"] == "***"
    assert first["body"]["messages"][-1]["content"] == "Look!"
    assert second["body"]["messages"][-1]["role"] == "tool"
    answer = files[names[2]]
    assert (answer["status"], answer["fault"]) == (200, None)
    assert answer["headers"]["content-type"].startswith("text/event-stream")
    assert "Found it" in answer["body"].replace('"}', "") or "[DONE]" in answer["body"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / names[0]).stat().st_mode) == 0o600


@pytest.mark.requirement("operation:trace-dir")
async def test_faults_are_written_down_too(tmp_path: Path) -> None:
    script = [http_error(418, "I am a teapot"), Reply(Text("Half"), Cut())]
    files = await _traced(tmp_path, script, {}, {"stream": True})
    answers = {
        (file["status"], file["fault"]) for name, file in files.items() if name.endswith("r.json")
    }
    assert answers == {(418, "http_4xx"), (200, "closed")}
    assert any(
        "teapot" in json.dumps(file["body"]) for name, file in files.items() if "answer" in name
    )


@pytest.mark.requirement("operation:trace-dir:redacted")
async def test_keys_are_masked_wherever_they_stand(tmp_path: Path) -> None:
    told = f"Your key is {UP}, and also Bearer abcdef0123456789."
    arguments = json.dumps({"api_key": "nested-secret-3", "city": "Paris"})
    request = {
        "input": [
            {"role": "user", "content": f"My key: {KEY} and {UP}"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c", "output": '{"password": "hush-4"}'},
        ]
    }
    script = [Reply(Text(told)), http_error(401, f"Incorrect API key provided: {UP}")]
    await _traced(tmp_path, script, request, {})
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    for secret in (UP, KEY, "nested-secret-3", "hush-4", "abcdef0123456789"):
        assert secret not in text, secret
    assert "Paris" in text
    assert "My key: *** and ***" in text


@pytest.mark.requirement("operation:trace-dir:disk")
async def test_a_disk_that_fails_breaks_no_turn(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    folder = tmp_path / "file" / "traces"
    async with (
        ModelServer("Hi", then="repeat") as model,
        serving(model.url, telemetry={"trace_dir": str(folder)}) as api,
    ):
        for stream in (True, False):
            answer = await api.create(stream=stream)
            assert answer.response["status"] == "completed"
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_long_answer_is_cut_and_says_so(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path)
    round_ = files.round("../../resp" + "x" * 500, 1, "http://h/v1", [], b"{}")
    for _ in range(3):
        round_.data(b"y" * (MAX_BODY // 2))
    round_.end(None)
    files.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert all(len(name) < 110 and name.startswith("______resp") for name in names)
    answer = json.loads((tmp_path / names[0]).read_text())
    assert len(answer["body"]) == MAX_BODY
    assert str(MAX_BODY // 2 * 3) in answer["cut"]


def test_after_the_end_nothing_is_written(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path)
    files.close()
    files.round("resp_1", 1, "http://h/v1", [], b"{}").end(None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"api_key": "abc", "n": 1}', '{"api_key": "***", "n": 1}'),
        ('{"Authorization":"Bearer abcdefgh"}', '{"Authorization":"***"}'),
        (
            r'{"a":"{\"x-api-key\": \"abc\", \"b\": 1}"}',
            r'{"a":"{\"x-api-key\": \"***\", \"b\": 1}"}',
        ),
        ('{"max_tokens": 5, "key": "home"}', '{"max_tokens": 5, "key": "home"}'),
        ('{"password": {"type": "string"}}', '{"password": {"type": "string"}}'),
        (r'{"secret": "a\"b", "c": "d"}', r'{"secret": "***", "c": "d"}'),
        ("https://me:hush@host/x?api_key=abc&b=1", "https://***@host/x?api_key=***&b=1"),
        ("the key sk-proj-abcdefghijkl is", "the key *** is"),
        ("Basic instincts and bearer of news", "Basic instincts and bearer of news"),
        ("known and unknown", "*** and un***"),
    ],
)
def test_what_is_masked(text: str, shown: str) -> None:
    assert Redactor(["known", ""]).text(text) == shown


def test_headers() -> None:
    headers = [(b"x-api-key", b"abc"), (b"accept", b"a"), (b"accept", b"b"), (b"set-cookie", b"c")]
    assert Redactor().headers(headers) == {
        "x-api-key": "***",
        "accept": "a, b",
        "set-cookie": "***",
    }


def test_the_configuration_takes_a_folder() -> None:
    check(convert({"telemetry": {"trace_dir": "/nowhere/yet"}}, {}), make_client())
