"""llmprobe, a conformance suite for model servers, on its Responses and Models scenarios: a gateway
process in front of the demo model."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, Request
from bascule.testing.demo import answer
from tests.node import installed, search_path
from tests.process import environment, gateway

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

_CAP = "OpenAI takes no max_output_tokens below 16, and neither does the gateway"
_DEMO = (
    "the demo model counts the words of its answer against the limit, not those of its reasoning"
)
_CACHE = "the demo model keeps no prompts"

EXPECTED = {
    ("responses-streaming", "responses-stream-chunk-schema"): (
        "it knows Open Responses' names of raw reasoning events, the gateway sends OpenAI's"
    ),
    ("responses-finish-length", "responses-finish-present"): _CAP,
    ("responses-limits-max-tokens", "responses-max-tokens-unverifiable"): _CAP,
    ("responses-reasoning-cap", "responses-reasoning-cap-usage"): _DEMO,
    ("responses-prompt-caching", "responses-cache-hit"): _CACHE,
    ("responses-prompt-cache-prefix", "responses-cache-prefix-hit"): _CACHE,
}
"""Findings that stay, by scenario and assertion, and why."""

NOT_THERE = {
    "responses-reasoning-roundtrip": "llmprobe has no wire shape for it on this surface",
    "responses-rate-limit-headers": "the gateway limits no rates",
    "responses-background": "background turns are refused: there are none yet",
    "responses-mcp-tools": "llmprobe hosts no MCP server to be called",
}
"""Scenarios that cannot be held against the gateway, and why."""


def _model(request: Request) -> Any:
    """The demo model, but for two things that llmprobe asks of it in plain words: two calls at once,
    and a text to be handed to a tool as it stands."""
    asked = _asked(request)
    if "Call both tools" in asked and request.json.get("parallel_tool_calls") is not False:
        names = [tool["function"]["name"] for tool in request.tools]
        return Reply(*(Call(name, {"city": "Tokyo"}) for name in names))
    _, found, content = asked.partition("content exactly:\n")
    if found:
        return Reply(Call("write_file", {"path": "notes.md", "content": content}, split=5))
    return answer(request)


def _asked(request: Request) -> str:
    """The text of the last message."""
    content = request.messages[-1].get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


@pytest.fixture(scope="module")
def llmprobe() -> Path:
    return installed("llmprobe")


async def test_its_findings_are_known(tmp_path: Path, llmprobe: Path) -> None:
    async with ModelServer(_model, models=["bascule-demo"]) as demo:
        found = await asyncio.to_thread(_probe, llmprobe, tmp_path, demo.url)
    ours = [r for r in found if r["surface"] in ("responses", "models")]
    outcomes = {r["id"]: r["outcome"] for r in ours}
    failures = {(r["id"], failure["id"]): failure for r in ours for failure in r["failures"]}
    assert failures.keys() == EXPECTED.keys(), failures
    unproved = {id_: o for id_, o in outcomes.items() if o not in ("pass", "fail")}
    assert unproved.keys() == NOT_THERE.keys(), unproved
    assert len(outcomes) >= 30, outcomes


def _probe(program: Path, home: Path, upstream: str) -> list[dict[str, Any]]:
    report = home / "report.json"
    config = home / "bascule.toml"
    config.write_text("[server]\nsse_done = true\n")
    arguments = ["--config", str(config), "--upstream", upstream, "--profile", "openai"]
    with gateway(home, *arguments) as served:
        command = [str(program), f"{served.url}/v1", "-m", "bascule-demo", "--no-bench", "--full"]
        command += ["--no-save", "--no-color", "--timeout", "20", "--save", str(report)]
        subprocess.run(
            command,
            cwd=home,
            env=environment(home, PATH=search_path()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=200,
            check=False,  # findings are its exit status
        )
    return msgspec.json.decode(report.read_bytes())["conformance"]["results"]
