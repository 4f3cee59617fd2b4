"""The agents SDK with its web search, which the gateway makes."""

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, WebSearchTool
from openai import AsyncOpenAI

from bascule.testing import Call, Reply
from tests.process import gateway
from tests.sdk.conftest import Model
from tests.services.pages.samples import article
from tests.services.search.fakes import SearxngFake, running
from tests.services.test_fetch import site
from tests.tools.web_gateway import HITS

pytestmark = pytest.mark.anyio

NO_TRACE = RunConfig(tracing_disabled=True)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_run_with_a_search(model: Model, tmp_path: Path, streamed: bool) -> None:
    async with running(SearxngFake(*HITS)) as engine, site() as pages:
        pages.page("/a", article().encode())
        model.play(
            Reply(Call("web_search", {"query": "bridges"}, id="call_1")),
            Reply(Call("web_search", {"url": f"{pages.url}/a"}, id="call_2")),
            "They are of stone [cite:1].",
        )
        config = tmp_path / "bascule.toml"
        config.write_text(
            f'[tools.web_search]\nengine = "searxng"\nbase_url = "{engine.url}"\n'
            'allow_hosts = ["127.0.0.1"]\n'
        )
        arguments = ["--config", str(config), "--upstream", model.server.url, "--profile", "openai"]
        with gateway(tmp_path, *arguments) as process:
            async with AsyncOpenAI(
                base_url=f"{process.url}/v1", api_key="none", max_retries=0
            ) as client:
                asked = OpenAIResponsesModel(model="bascule-demo", openai_client=client)
                tool = WebSearchTool(
                    search_context_size="low",
                    user_location={"type": "approximate", "city": "Cork", "country": "IE"},
                )
                guide = Agent(name="Guide", instructions="Help.", model=asked, tools=[tool])
                if streamed:
                    streaming = Runner.run_streamed(guide, "Bridges?", run_config=NO_TRACE)
                    async for _ in streaming.stream_events():
                        pass
                    result: Any = streaming
                else:
                    result = await Runner.run(guide, "Bridges?", run_config=NO_TRACE)
    assert result.final_output == "They are of stone."
    assert [asked.query for asked in engine.asked] == ["bridges"]
    [response] = result.raw_responses
    search, opened, message = response.output
    assert (opened.status, opened.action.type) == ("completed", "open_page")
    assert "Paragraph 2 tells of" in str(model.last.json["messages"])
    assert (search.type, search.status, search.action.query) == (
        "web_search_call",
        "completed",
        "bridges",
    )
    [annotation] = message.content[0].annotations
    assert (annotation.type, annotation.url) == ("url_citation", HITS[0].url)
    assert "The user is about here: Cork, IE." in str(model.last.json["tools"])
