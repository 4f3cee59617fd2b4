"""Whole turns in front of a scripted model: what goes to it, what comes back, what is kept."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dirty_equals import IsStr

from bascule.agent import rollout
from bascule.agent.events import (
    MessageDone,
    ReasoningDone,
    ServerItem,
    SessionStarted,
    TextDelta,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    Warned,
)
from bascule.testing import Eof, HttpAnswer, Reply, Stall, Text, http_error, http_json, responded
from bascule.testing.answer import Wire
from bascule.testing.responses import responses_events
from bascule.testing.steps import Data
from tests.agent.world import Json, custom, function, patch, said, scripted, world

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("agent:turn")
async def test_a_turn_of_several_rounds(tmp_path: Path) -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "blob",
    }
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "new": {"member": 1}}
    calls = [
        function("exec_command", {"cmd": "echo one"}, "call_1"),
        custom("apply_patch", patch("*** Add File: a.txt", "+a"), "call_2"),
        function("exec_command", {"cmd": "cat a.txt"}, "call_3"),
    ]
    script = scripted([reasoning, search, *calls], [said("done")])
    async with world(tmp_path, script, reasoning_effort="low") as it:
        turn = await it.session.turn("please", ["data:image/png;base64,AAAA"])
        assert (turn.status, turn.error, turn.rounds) == ("completed", None, 2)
        assert (turn.usage.input_tokens, turn.usage.output_tokens) == (24, 14)
        first, second = it.asked(0), it.asked(1)
        assert first["stream"] is True
        assert first["store"] is False
        assert first["reasoning"] == {"effort": "low", "summary": "auto"}
        assert [item["role"] for item in first["input"]] == ["developer", "user", "user"]
        assert first["input"][2]["content"][1]["image_url"] == "data:image/png;base64,AAAA"
        # What was sent once is sent again as it was; what the model said stands as it said it.
        assert second["input"][:3] == first["input"]
        assert second["input"][3:8] == [reasoning, search, *calls]
        outputs = second["input"][8:]
        assert [o["call_id"] for o in outputs] == ["call_1", "call_2", "call_3"]
        assert outputs[2]["output"].endswith("Output:\na\n")
        assert second["tools"] == first["tools"]
        [message] = it.of(MessageDone)
        assert message.text == "done"
        assert "".join(event.text for event in it.of(TextDelta)) == "done"
        assert it.of(ReasoningDone)[0].text == "hm"
        assert it.of(ServerItem)[0].type == "web_search_call"
        kinds = [type(event) for event in it.events]
        assert kinds[0] is SessionStarted
        assert kinds[1] is TurnStarted
        assert kinds[-1] is TurnEnded


@pytest.mark.requirement("agent:starts_early")
async def test_a_call_runs_while_the_model_still_writes(tmp_path: Path) -> None:
    events = responses_events(function("exec_command", {"cmd": "touch made"}))
    steps = [Data(msgspec.json.encode(e).decode(), e["type"]) for e in events[:-1]]
    script = [Reply(*steps, Stall(), wire=Wire(answer="sse"))]
    async with world(tmp_path, script) as it:
        task = asyncio.ensure_future(it.session.turn("go"))
        async with asyncio.timeout(10):
            while not (it.folder / "made").exists():
                await asyncio.sleep(0.01)
            while not it.of(ToolEnded):
                await asyncio.sleep(0.01)
        it.session.interrupt()
        turn = await task
        assert turn.status == "interrupted"
        items = [msgspec.json.decode(item) for item in it.session.history.items]
        assert [item["type"] for item in items[-2:]] == ["function_call", "function_call_output"]
        assert "exited with code 0" in items[-1]["output"]


@pytest.mark.requirement("agent:interrupted")
async def test_an_interrupted_turn_can_be_gone_on_with(tmp_path: Path) -> None:
    calls = [
        function("exec_command", {"cmd": "echo quick"}, "call_1"),
        function("exec_command", {"cmd": "sleep 60"}, "call_2"),
        custom("apply_patch", patch("*** Add File: a", "+a"), "call_3"),
    ]
    script = scripted(calls, [said("again")])
    async with world(tmp_path, script) as it:
        task = asyncio.ensure_future(it.session.turn("go"))
        async with asyncio.timeout(10):
            while not (it.of(ToolEnded) and it.session.history.items[-1].find(b"call_3") > 0):
                await asyncio.sleep(0.01)
        began = time.monotonic()
        assert it.session.interrupt()
        turn = await task
        assert time.monotonic() - began < 3
        assert (turn.status, turn.error) == ("interrupted", "interrupted by the user")
        assert not (it.folder / "a").exists()
        await it.session.turn("and now?")
        outputs = {i["call_id"]: i["output"] for i in it.told(1) if i["type"].endswith("_output")}
        assert outputs["call_1"].endswith("quick\n")
        assert outputs["call_2"] == IsStr(regex=r"aborted by user after \d\.\ds")
        assert outputs["call_3"] == IsStr(regex=r"aborted by user after \d\.\ds")
        assert not it.session.interrupt()


async def test_one_who_cancels_from_outside_is_not_kept(tmp_path: Path) -> None:
    async with world(tmp_path, scripted([function("exec_command", {"cmd": "sleep 60"})])) as it:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await it.session.turn("go")
        assert it.session.history.orphans() == []
        assert it.of(TurnEnded)[0].status == "interrupted"


# --- an endpoint that fails


def _failed(code: str) -> Any:
    return responded(status="failed", error={"code": code, "message": "overloaded"})


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([http_error(503, "loading"), said("fine")], "HTTP 503: loading"),
        ([http_error(429, "slow down"), said("fine")], "HTTP 429: slow down"),
        ([_failed("server_error"), said("fine")], "The answer failed: overloaded"),
        ([Reply(Text(""), Eof(), wire=Wire(answer="sse")), said("fine")], ""),
    ],
    ids=["503", "429", "failed", "cut"],
)
@pytest.mark.requirement("agent:retried")
async def test_what_may_help_is_tried_again(
    tmp_path: Path, answers: list[Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(seconds: float) -> None:
        assert seconds < 60

    monkeypatch.setattr("bascule.agent.session.sleep", at_once)
    async with world(tmp_path, _rule(answers)) as it:
        turn = await it.session.turn("go")
        assert turn.status == "completed"
        [warning] = it.of(Warned)
        assert told in warning.message
        assert it.told(0) == it.told(1)


def _rule(answers: list[Any]) -> Any:
    def answer(request: Any) -> Any:
        given = answers[min(request.number, len(answers)) - 1]
        if isinstance(given, dict):
            given = responded(given)
        return given(request) if callable(given) else given

    return answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http_error(401, "no key"), "HTTP 401: no key"),
        (http_error(400, "bad tool"), "HTTP 400: bad tool"),
        (HttpAnswer(404, b"<html>not here</html>"), "HTTP 404: <html>not here</html>"),
        (_failed("invalid_prompt"), "The answer failed: overloaded"),
        (http_json(200, {"no": "stream"}), "The answer ended before it was complete."),
    ],
    ids=["401", "400", "404", "failed", "no stream"],
)
@pytest.mark.requirement("agent:failed")
async def test_what_cannot_be_helped_fails_the_turn(
    tmp_path: Path, answer: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(seconds: float) -> None:
        assert seconds < 60

    monkeypatch.setattr("bascule.agent.session.sleep", at_once)
    async with world(tmp_path, _rule([answer])) as it:
        turn = await it.session.turn("go")
        assert (turn.status, turn.error) == ("failed", told)


async def test_an_answer_that_is_cut_after_an_item_fails_and_answers_its_calls(
    tmp_path: Path,
) -> None:
    events = responses_events(function("exec_command", {"cmd": "echo x"}))[:-1]
    steps = [Data(msgspec.json.encode(e).decode(), e["type"]) for e in events]
    async with world(tmp_path, [Reply(*steps, Eof(), wire=Wire(answer="sse"))]) as it:
        turn = await it.session.turn("go")
        assert (turn.status, turn.error) == ("failed", "The answer ended before it was complete.")
        assert it.session.history.orphans() == []


async def test_a_call_of_an_answer_that_fails_is_not_said_to_be_stopped_by_the_user(
    tmp_path: Path,
) -> None:
    events = responses_events(function("exec_command", {"cmd": "sleep 60"}))[:-1]
    steps = [Data(msgspec.json.encode(e).decode(), e["type"]) for e in events]
    async with world(tmp_path, [Reply(*steps, Eof(), wire=Wire(answer="sse"))]) as it:
        await it.session.turn("go")
        last = msgspec.json.decode(it.session.history.items[-1])
        told = r"aborted after \d\.\ds: the answer that made the call has failed"
        assert last["output"] == IsStr(regex=told)


async def test_one_turn_at_a_time(tmp_path: Path) -> None:
    async with world(tmp_path, scripted([function("exec_command", {"cmd": "sleep 60"})])) as it:
        task = asyncio.ensure_future(it.session.turn("go"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="runs already"):
            await it.session.turn("and me?")
        it.session.interrupt()
        await task


async def test_an_incomplete_answer_is_told(tmp_path: Path) -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    async with world(tmp_path, responded(said("half"), status="incomplete", **details)) as it:
        turn = await it.session.turn("go")
        assert turn.status == "incomplete"
        assert turn.error == "The answer is incomplete: max_output_tokens."


@pytest.mark.requirement("agent:rounds")
async def test_a_model_that_goes_round_in_circles_is_stopped(tmp_path: Path) -> None:
    async with world(
        tmp_path, responded(function("update_plan", {"plan": []})), max_rounds=5
    ) as it:
        turn = await it.session.turn("go")
        assert (turn.status, turn.rounds) == ("incomplete", 5)
        assert it.session.history.orphans() == []


async def test_a_forced_choice_is_for_the_first_round(tmp_path: Path) -> None:
    choice = {"type": "function", "name": "exec_command"}
    script = scripted([function("exec_command", {"cmd": "true"})], [said("done")])
    async with world(tmp_path, script, tool_choice=choice) as it:
        await it.session.turn("go")
        assert [it.asked(n)["tool_choice"] for n in (0, 1)] == [choice, "auto"]


# --- sessions that are kept


@pytest.mark.requirement("agent:resumed")
async def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    async with world(tmp_path, scripted([said("one")])) as it:
        await it.session.turn("first")
        path, sent = rollout.path_of(tmp_path / "home", it.session.id), it.told(0)
        assert path.stat().st_mode & 0o777 == 0o600
    async with world(tmp_path, scripted([said("two")]), resumed=path) as it:
        await it.session.turn("second")
        told = it.told(0)
        assert told[: len(sent)] == sent
        assert [item.get("role") for item in told[len(sent) :]] == ["assistant", "user"]
        assert it.of(SessionStarted)[0].resumed
    about, items = rollout.read(path)
    assert about.cwd == str(tmp_path / "work")
    assert len(items) == len(told) + 1


@pytest.mark.requirement("agent:resumed:cut")
async def test_one_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    async with world(tmp_path, scripted([said("one")])) as it:
        await it.session.turn("first")
        path = rollout.path_of(tmp_path / "home", it.session.id)
    call = msgspec.json.encode(function("exec_command", {"cmd": "true"}))
    kept = rollout.Rollout(path)
    kept.write("item", call)
    kept.close()
    with path.open("ab") as file:
        file.write(b'{"kind":"item","at":1,"da')
    async with world(tmp_path, scripted([said("two")]), resumed=path) as it:
        await it.session.turn("second")
        outputs = [item for item in it.told(0) if item["type"] == "function_call_output"]
        assert outputs == [
            {"type": "function_call_output", "call_id": "call_1", "output": "aborted"}
        ]
    assert rollout.read(path)[1]


def test_sessions_are_found(tmp_path: Path) -> None:
    for number, cwd in enumerate(["/a", "/b", "/a"]):
        kept = rollout.Rollout(rollout.path_of(tmp_path, f"ses_{number}"))
        about: Json = {"id": f"ses_{number}", "cwd": cwd, "model": "m", "created": 0.0}
        kept.write("session", msgspec.json.encode(about))
        kept.close()
        time.sleep(0.01)
    find = rollout.find
    assert find(tmp_path, "ses_1") == rollout.path_of(tmp_path, "ses_1")
    assert find(tmp_path, "ses_") is None  # several
    assert find(tmp_path, None, Path("/b")) == rollout.path_of(tmp_path, "ses_1")
    assert find(tmp_path, None, Path("/a")) == rollout.path_of(tmp_path, "ses_2")
    assert find(tmp_path, None, Path("/c")) is None
    assert find(tmp_path, "../../etc/passwd") is None
    (tmp_path / "sessions" / "ses_9.jsonl").write_text("{}\nnonsense\n")
    with pytest.raises(ValueError, match="line 1"):
        rollout.read(tmp_path / "sessions" / "ses_9.jsonl")


async def test_interrupting_at_the_very_end_hurts_nobody(tmp_path: Path) -> None:
    async with world(tmp_path, scripted([said("one")], [said("two")])) as it:

        def listener(event: object) -> None:
            it.events.append(event)  # type: ignore[arg-type]
            if isinstance(event, MessageDone) and event.text == "one":
                it.session.interrupt()

        it.session._listener = listener
        first = await it.session.turn("go")
        assert first.status in ("completed", "interrupted")
        await asyncio.sleep(0)
        assert (await it.session.turn("again")).status == "completed"
