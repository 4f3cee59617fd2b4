"""What tasks of a turn write names the turn's own request."""

import pytest

from bascule.telemetry.logs import request_id
from bascule.testing import Call, ModelServer, Reply, Text
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from tests.engine.lookup_tool import TOOL, LookupExecutor, install
from tests.serving import serving

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("operation:log:line")
@pytest.mark.parametrize("stream", [True, False])
async def test_an_execution_logs_in_the_name_of_its_request(stream: bool) -> None:
    seen: list[str] = []

    async def answering(_: ToolCall) -> Outcome:
        seen.append(request_id())
        return Output(output="found")

    script = [Reply(Call("lookup", {})), Reply(Text("Good"))] * 3
    async with (
        ModelServer(script) as model,
        serving(model.url, adjust=install(LookupExecutor(answering))) as api,
    ):
        for name in ("req-a", "req-b", "req-c"):
            headers = {"x-request-id": name}
            answer = await api.create(headers=headers, tools=[TOOL], stream=stream)
            assert answer.response["status"] == "completed"
        assert model.connections == 1  # one connection served them all
    assert seen == ["req-a", "req-b", "req-c"]
