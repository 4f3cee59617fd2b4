"""The other tools, through dispatch."""

import base64
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.agent.calls import ToolName
from bascule.agent.events import PlanUpdated
from bascule.agent.handler import Exposure, LocalHandler
from bascule.agent.ranking import Ranking, words
from bascule.agent.tools.request_user_input import RequestUserInput, UserQuestion
from bascule.agent.tools.tool_search import ToolSearch
from bascule.agent.tools.view_image import MAX_BYTES
from tests.agent.world import Json, function, patch, world

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + b"data"


# --- shell, in its three shapes


@pytest.mark.requirement("shell:function")
async def test_shell_as_a_function(tmp_path: Path) -> None:
    async with world(tmp_path, tools={"shell": "shell"}) as it:
        said = await it.run("shell", {"command": ["sh", "-c", "echo out; echo err >&2; exit 2"]})
        assert said.startswith("Exit code: 2\nWall time: ")
        assert said.endswith("Output:\nout\nerr\n")
        late = await it.run(
            "shell", {"command": ["sh", "-c", "echo x; sleep 30"], "timeout_ms": 300}
        )
        assert late.startswith("Exit code: 124\n")
        assert late.endswith("command timed out after 300 milliseconds\nx\n")
        assert "Expected `array` of length >= 1" in await it.run("shell", {"command": []})
        assert "could not be started" in await it.run("shell", {"command": ["/no/such"]})
        text = patch("*** Add File: a", "+a")
        assert "A a" in await it.run("shell", {"command": ["apply_patch", text]})
        assert "A b" in await it.run(
            "shell",
            {
                "command": [
                    "bash",
                    "-lc",
                    "apply_patch <<EOF\n" + text.replace(": a", ": b") + "\nEOF",
                ]
            },
        )
        assert await it.run("exec_command", {"cmd": "ls"}) == "unsupported call: exec_command"


@pytest.mark.parametrize("declared", ["exec_command", "local_shell"])
@pytest.mark.requirement("shell:local")
async def test_local_shell_is_served_declared_or_not(tmp_path: Path, declared: str) -> None:
    def call(**action: Any) -> Json:
        whole = {
            "type": "exec",
            "command": ["sh", "-c", "echo $X; pwd"],
            "env": {"X": "x"},
            **action,
        }
        about = {"type": "local_shell_call", "id": "lsh_1", "status": "completed"}
        return {**about, "call_id": "call_1", "action": whole}

    async with world(tmp_path, tools={"shell": declared}) as it:
        (it.folder / "sub").mkdir()
        [output] = await it.call(call(working_directory="sub"))
        assert (output["type"], output["call_id"]) == ("local_shell_call_output", "call_1")
        assert output["output"].endswith(f"Output:\nx\n{it.folder}/sub\n")
        [root] = await it.call(call(user="somebody"))
        assert root["output"] == "commands cannot be run as the user 'somebody' here"
        [late] = await it.call(call(command=["sleep", "9"], timeout_ms=200))
        assert "timed out after 200 milliseconds" in late["output"]
        types = [spec.declaration["type"] for spec in it.session.registry.iter_specs()]
        assert ("local_shell" in types) == (declared == "local_shell")


@pytest.mark.requirement("shell:hosted")
async def test_the_shape_of_shell_that_servers_know(tmp_path: Path) -> None:
    def call(commands: list[str], **limits: Any) -> Json:
        about = {"type": "shell_call", "id": "sh_1", "status": "completed", "call_id": "call_1"}
        return {**about, "action": {"commands": commands, **limits}}

    async with world(tmp_path, tools={"shell": "hosted"}) as it:
        commands = ["echo out; echo err >&2; exit 3", "sleep 9", "seq 1000"]
        [output] = await it.call(call(commands, timeout_ms=400, max_output_length=80))
        assert (output["type"], output["max_output_length"]) == ("shell_call_output", 80)
        first, second, third = output["output"]
        outcome = {"type": "exit", "exit_code": 3}
        assert first == {"stdout": "out\n", "stderr": "err\n", "outcome": outcome}
        assert second["outcome"] == {"type": "timeout"}
        assert third["stdout"].endswith("999\n1000\n")
        assert "tokens truncated…" in third["stdout"]
        [empty] = await it.call(call([]))
        assert empty["output"][0]["stderr"] == "there are no commands"
        text = patch("*** Add File: a", "+a")
        [patched] = await it.call(call([f"apply_patch <<EOF\n{text}\nEOF"]))
        assert "A a" in patched["output"][0]["stdout"]


# --- plans, images, questions


@pytest.mark.requirement("agent:update_plan")
async def test_a_plan_is_shown(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        steps = [{"step": "look", "status": "completed"}, {"step": "do", "status": "in_progress"}]
        assert await it.run("update_plan", {"plan": steps, "explanation": "why"}) == "Plan updated"
        [shown] = it.of(PlanUpdated)
        assert (shown.explanation, [s.step for s in shown.plan]) == ("why", ["look", "do"])
        two = [{"step": "a", "status": "in_progress"}] * 2
        assert "more than one step is in_progress" in await it.run("update_plan", {"plan": two})
        wrong = [{"step": "a", "status": "done"}]
        assert "Invalid enum value 'done'" in await it.run("update_plan", {"plan": wrong})


@pytest.mark.requirement("agent:view_image")
async def test_an_image_is_shown_to_the_model(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        (it.folder / "a.dat").write_bytes(PNG)
        [output] = await it.call(function("view_image", {"path": "a.dat"}))
        url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        image = {"type": "input_image", "image_url": url, "detail": "original"}
        assert output["output"] == [image]
        (it.folder / "text.png").write_text("no image")
        (it.folder / "large.png").write_bytes(PNG)
        os.truncate(it.folder / "large.png", MAX_BYTES + 1)
        os.mkfifo(it.folder / "pipe.png")
        for path, told in {
            "none.png": "unable to locate image at none.png: No such file",
            "text.png": "it is no PNG, JPEG, GIF or WebP image",
            "large.png": f"{MAX_BYTES} are allowed",
            "pipe.png": "it is no regular file",
            ".": "it is no regular file",
        }.items():
            assert told in await it.run("view_image", {"path": path})


async def test_an_image_that_a_confined_command_made_is_found(tmp_path: Path) -> None:
    async with world(tmp_path, mode="workspace-write") as it:
        (tmp_path / "temp" / "plot.gif").write_bytes(b"GIF89a")
        [output] = await it.call(function("view_image", {"path": "/tmp/plot.gif"}))
        assert output["output"][0]["type"] == "input_image"


@pytest.mark.requirement("agent:request_user_input")
async def test_questions_reach_the_user(tmp_path: Path) -> None:
    asked: list[UserQuestion] = []

    async def answers(questions: Any) -> list[str] | None:
        asked.extend(questions)
        return ["red"] if len(asked) == 1 else None

    question = {"id": "colour", "header": "Colour", "question": "Which?", "options": [
        {"label": "red", "description": ""}, {"label": "blue", "description": ""}]}  # fmt: skip
    async with world(tmp_path, handlers=[RequestUserInput(answers)]) as it:
        said = await it.run("request_user_input", {"questions": [question]})
        assert msgspec.json.decode(said) == {"answers": {"colour": {"answers": ["red"]}}}
        again = await it.run("request_user_input", {"questions": [question]})
        assert again == "The user did not answer."
        none = await it.run("request_user_input", {"questions": []})
        assert "Expected `array` of length >= 1" in none


# --- searching for tools


def test_words_of_names() -> None:
    assert words("getUserIDs_v2 HTTPServer") == ["get", "user", "id", "v", "2", "http", "server"]


@pytest.mark.requirement("tool_search:ranking")
def test_what_is_asked_for_comes_first() -> None:
    documents = [(f"tool_{n:02}", f"Does the thing of number {n:02}.") for n in range(40)]
    documents += [
        ("create_invoice", "Makes a new bill for a customer."),
        ("list_customers", "All customers, page by page."),
        ("send_mail", "Sends a message to somebody."),
    ]
    ranking = Ranking(documents)

    def names(query: str, limit: int = 3) -> list[str]:
        return [documents[at][0] for at in ranking.best(query, limit)]

    assert names("07")[0] == "tool_07"
    assert names("make an invoice")[0] == "create_invoice"
    assert names("customer")[:2] == ["list_customers", "create_invoice"]
    assert names("please use send_mail now")[0] == "send_mail"
    assert names("weather") == []


class Deferred(LocalHandler):
    def __init__(self, name: ToolName, about: str) -> None:
        self.name = name
        self.about = about
        self.exposure = Exposure.DEFERRED

    def spec(self) -> Any:
        from bascule.agent.handler import function, schema

        return function(self.name.name, self.about, schema([], city={"type": "string"}))

    def kind(self) -> Any:
        from bascule.agent.calls import ToolKind

        return ToolKind.FUNCTION

    async def handle(self, invocation: Any) -> Any:
        from bascule.agent.calls import ToolOutput

        return ToolOutput(content=f"{self.name} ran")


@pytest.mark.requirement("tool_search:client")
async def test_deferred_tools_are_found_and_called(tmp_path: Path) -> None:
    handlers = [
        Deferred(ToolName("weather", "forecast"), "The weather of tomorrow."),
        Deferred(ToolName("weather", "history"), "The weather of the past."),
        Deferred(ToolName(None, "translate"), "Says it in another language."),
    ]
    async with world(tmp_path, handlers=handlers) as it:
        names = [
            s.declaration.get("name") or s.declaration["type"]
            for s in it.session.registry.iter_specs()
        ]
        assert "tool_search" in names
        assert not {"weather", "translate", "forecast"} & set(names)
        search = {
            "type": "tool_search_call",
            "execution": "client",
            "call_id": "call_1",
            "id": "tsc_1",
        }
        [output] = await it.call({**search, "arguments": {"query": "weather", "limit": 5}})
        assert (output["type"], output["status"], output["execution"]) == (
            "tool_search_output",
            "completed",
            "client",
        )
        [space] = output["tools"]
        assert (space["type"], space["name"]) == ("namespace", "weather")
        assert [tool["name"] for tool in space["tools"]] == ["forecast", "history"]
        [found] = await it.call(function("forecast", {}, namespace="weather"))
        assert found["output"] == "weather.forecast ran"
        [flat] = await it.call(function("weather__forecast", {}))
        assert flat["output"] == "weather.forecast ran"
        [bare] = await it.call(function("forecast", {}))
        assert bare["output"] == "unsupported call: forecast"
        [nothing] = await it.call({**search, "arguments": '{"query": "zebra"}'})
        assert (nothing["tools"], nothing["status"]) == ([], "completed")
        [wrong] = await it.call({**search, "arguments": {"limit": "x"}})
        assert (wrong["tools"], wrong["status"]) == ([], "incomplete")
        assert await it.call({**search, "execution": "server", "arguments": {}}) == []
    assert ToolSearch(handlers).takes


async def test_time_is_not_wasted() -> None:
    documents = [(f"tool_{n}", "Does something of use for somebody.") for n in range(2000)]
    ranking, began = Ranking(documents), time.process_time()
    ranking.best("something with number 1999", 8)
    assert time.process_time() - began < 0.2
