"""A recorded turn in which the model's own code ran before the client's function was called. Nothing here
runs code yet: a tool of the test's stands in, which prints nothing and shows the recorded items."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.events import OtherItemEvent
from bascule.protocols.responses.items import ItemStatus
from bascule.testing import Call, Finish, ModelServer, Reply, Step
from bascule.toolkit.executor import ExecutionContext, ToolExecutor
from bascule.toolkit.handler import Handlers, Tool
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from bascule.toolkit.ownership import Ownership, gateway
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.code_interpreter import CodeInterpreterHandler, CodeInterpreterParams
from bascule.tools.function import FunctionHandler
from tests.recordings import tally
from tests.recordings.convert import expected, output_of, request
from tests.recordings.convert import steps as steps_of
from tests.recordings.files import recordings
from tests.recordings.keys import item_keys, response_keys
from tests.serving import serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

[RECORDING] = [r for r in recordings("responses") if r.family == "mixed_rounds"]


class CodeProjection(Projection):
    """`code_interpreter_call`, in the recorded order."""

    id_prefix: ClassVar[str] = "ci"

    def __init__(self, writer: ItemWriter, call: ToolCall, container: str) -> None:
        super().__init__(writer, call)
        self._container = container
        self._code: str | None = None

    def begin(self) -> None:
        self.writer.added(self._item("in_progress"))
        self._event("code_interpreter_call.in_progress")

    def complete(self, arguments: str, status: ItemStatus) -> None:
        self._code = json.decoder(dict[str, str])(arguments.encode())["code"]
        self._event("code_interpreter_call_code.delta", delta=self._code)
        self._event("code_interpreter_call_code.done", code=self._code)
        self._event("code_interpreter_call.interpreting")

    def finish(self, outcome: Outcome) -> None:
        self._event("code_interpreter_call.completed")
        self.writer.done(self._item("completed"))

    def _event(self, name: str, **fields: str) -> None:
        self.writer.event(OtherItemEvent(-1, "", 0, f"response.{name}", fields))

    def _item(self, status: str) -> dict[str, Any]:
        return {
            "id": self.writer.item_id,
            "type": "code_interpreter_call",
            "status": status,
            "container_id": self._container,
            "code": self._code,
            "outputs": None,
        }


class CodeExecutor(ToolExecutor[CodeInterpreterParams]):
    async def execute(
        self, call: ToolCall, params: CodeInterpreterParams, context: ExecutionContext
    ) -> Outcome:
        return Output(output="1.4142135623730951")

    def project(
        self, writer: ItemWriter, call: ToolCall, identity: Identity, params: CodeInterpreterParams
    ) -> Projection:
        return CodeProjection(writer, call, "cntr_1")


class CodeHandler(CodeInterpreterHandler):
    def normalize(self, params: CodeInterpreterParams) -> Sequence[Tool]:
        schema = Raw(b'{"type":"object","properties":{"code":{"type":"string"}}}')
        return [Tool(Identity(None, self.kind, self.kind), "Runs Python", schema)]

    def owner(self, params: CodeInterpreterParams, identity: Identity) -> Ownership:
        return gateway(CodeExecutor(), params)


def _install(gateway_: Any) -> None:
    gateway_.engine.handlers = Handlers([FunctionHandler(), CodeHandler()])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.requirement("recordings:responses:items")
async def test_the_gateway_answers_as_recorded(stream: bool) -> None:
    recorded, items = output_of(RECORDING)
    wanted = expected(items)
    replies: list[Reply] = []
    steps: list[Step] = []
    for item in items:
        if item["type"] == "code_interpreter_call":
            code = Call("code_interpreter", {"code": item["code"]}, id="call_0", split=3)
            replies.append(Reply(*steps, code, Finish("tool_calls")))
            steps = []
        else:
            steps += steps_of(item)
    replies.append(Reply(*steps, Finish("tool_calls")))
    fields = request(RECORDING)
    fields["stream"] = stream
    async with ModelServer(replies) as model, serving(model.url, adjust=_install) as api:
        answer = await api.create(**fields)
        assert len(model.chats) == 2
    assert answer.status == 200, answer.body
    if stream:
        check_stream(answer.frames)
    response = answer.response
    assert response["status"] == recorded["status"]
    assert [item["type"] for item in response["output"]] == wanted.types
    for theirs, mine in zip(wanted.items, response["output"], strict=True):
        assert item_keys(theirs, mine) == []
        for key in ("code", "outputs", "arguments", "name", "status"):
            assert mine.get(key) == theirs.get(key)
    assert response_keys(recorded, response) == []
    tally.replayed("responses", "mixed_rounds", RECORDING.name)
