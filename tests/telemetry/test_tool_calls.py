"""What is told of the gateway's own tool calls: types and numbers, more only where it is configured."""

import asyncio
import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from msgspec import structs
from opentelemetry.sdk.trace import ReadableSpan

from bascule.gateway.serve import make_observer
from bascule.protocols.responses.items import Part
from bascule.telemetry import genai
from bascule.telemetry.logs import configure_logging, lines
from bascule.telemetry.metrics import Metrics
from bascule.telemetry.observe import Observer
from bascule.telemetry.redact import Redactor
from bascule.telemetry.tool_detail import ToolDetail
from bascule.telemetry.tracing import Tracing
from bascule.testing import Call, ModelServer, Reply
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Failed, Outcome, Output
from tests.engine.lookup_tool import TOOL, LookupExecutor, LookupHandler, install
from tests.serving import serving
from tests.telemetry.test_tracing import Kept

NAME, CALL_ID = "lookup", "call-id-secret"
ARGUMENTS, RESULT, FAULT = "arguments-secret", "result-secret", "fault-secret"
KEY = "sk-abcdefghijklmnopqrstuvwx"
CONTENT = (CALL_ID, ARGUMENTS, RESULT, FAULT)
KIND = "kind_of_tool"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is logged, as JSON."""
    before = structlog.get_config()
    handlers, level = logging.root.handlers, logging.root.level
    out = io.StringIO()
    configure_logging("json", "info", out)
    structlog.configure(cache_logger_on_first_use=False)  # what is cached is not put back below
    yield out
    structlog.configure(**before)
    logging.root.handlers, logging.root.level = handlers, level
    lines.configure("text", "error", io.StringIO())


async def answering(call: ToolCall) -> Outcome:
    if "fails" in call.arguments:
        return Failed(message=FAULT)
    if "raises" in call.arguments:
        raise ValueError(FAULT)
    return Output(output=f"{RESULT} {KEY}")


async def told(log: io.StringIO, **telemetry: bool) -> tuple[list[ReadableSpan], str, str]:
    """The spans, the log and the metrics of a turn with three calls."""
    exporter = Kept()
    executor = LookupExecutor(answering)

    def adjust(gateway: Any) -> None:
        install(executor)(gateway)
        observer: Observer = gateway.engine.observer
        gateway.engine.observer = Observer(
            metrics=observer.metrics,
            tracing=Tracing("http://unused", exporter=exporter),
            tool_detail=observer.tool_detail,
        )

    queries = (f"{ARGUMENTS} {KEY}", f"fails {ARGUMENTS}", f"raises {ARGUMENTS}")
    calls = [Call(NAME, {"q": q}, id=f"{CALL_ID}-{i}") for i, q in enumerate(queries)]
    async with (
        ModelServer([Reply(*calls), "Well."]) as model,
        serving(model.url, adjust=adjust, telemetry=telemetry) as api,
    ):
        await api.create(tools=[TOOL])
        metrics = (await api.send("GET", "/metrics")).body.decode()
        await asyncio.to_thread(api.engine.observer.close)
    assert executor.calls
    spans = [s for s in exporter.spans if s.name.startswith("execute_tool")]
    assert len(spans) == 3
    return spans, log.getvalue(), metrics


@pytest.fixture
def another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that differs from the tool's name."""
    normalize = LookupHandler.normalize

    def normalized(self: LookupHandler, params: Any) -> Any:
        (tool,) = normalize(self, params)
        return [structs.replace(tool, identity=tool.identity._replace(kind=KIND))]

    monkeypatch.setattr(LookupHandler, "normalize", normalized)


@pytest.mark.anyio
@pytest.mark.usefixtures("another_kind")
@pytest.mark.requirement("tools:telemetry:private", "tools:telemetry:recorded")
async def test_types_outcomes_and_times_only(log: io.StringIO) -> None:
    spans, logged, metrics = await told(log)
    assert [span.name for span in spans] == [f"execute_tool {KIND}"] * 3
    outcomes = [(span.attributes or {})[genai.TOOL_OUTCOME] for span in spans]
    assert sorted(map(str, outcomes)) == ["failed", "failed", "output"]
    assert all((span.attributes or {})[genai.TOOL_TYPE] == KIND for span in spans)
    shown = "".join(span.to_json() for span in spans)
    for secret in (*CONTENT, KEY):
        assert secret not in shown + logged + metrics
    assert f'"{NAME}"' not in shown + logged + metrics
    assert logged.count('"event":"tool call"') == 3
    assert logged.count(f'"type":"{KIND}"') == 3
    assert f'bascule_tool_calls_total{{outcome="output",type="{KIND}"}} 1' in metrics
    assert f'bascule_tool_calls_total{{outcome="failed",type="{KIND}"}} 2' in metrics
    assert f'bascule_tool_seconds_count{{type="{KIND}"}} 3' in metrics


@pytest.mark.anyio
@pytest.mark.usefixtures("another_kind")
@pytest.mark.requirement("tools:telemetry:configured")
async def test_names_where_they_are_asked_for(log: io.StringIO) -> None:
    spans, logged, metrics = await told(log, tool_names=True)
    assert [span.name for span in spans] == [f"execute_tool {NAME}"] * 3
    facts = spans[0].attributes or {}
    assert (facts[genai.TOOL_NAME], facts[genai.TOOL_TYPE]) == (NAME, KIND)
    assert facts[genai.TOOL_CALL_ID] == f"{CALL_ID}-0"
    assert f'"tool":"{NAME}"' in logged
    assert f'"call_id":"{CALL_ID}-0"' in logged
    shown = "".join(span.to_json() for span in spans)
    for secret in (ARGUMENTS, RESULT, FAULT):
        assert secret not in shown + logged
    assert CALL_ID not in metrics


@pytest.mark.anyio
@pytest.mark.usefixtures("another_kind")
@pytest.mark.requirement("tools:telemetry:configured")
async def test_content_where_it_is_asked_for(log: io.StringIO) -> None:
    spans, logged, metrics = await told(log, tool_content=True)
    assert [span.name for span in spans] == [f"execute_tool {KIND}"] * 3
    facts = [span.attributes or {} for span in spans]
    assert any(str(f[genai.TOOL_ARGUMENTS]) == f'{{"q":"{ARGUMENTS} ***"}}' for f in facts)
    results = {str(f[genai.TOOL_RESULT]) for f in facts}
    assert results == {f"{RESULT} ***", FAULT, "The tool failed: ValueError."}
    assert ARGUMENTS in logged
    assert f'"result":"{RESULT} ***"' in logged
    shown = "".join(span.to_json() for span in spans)
    assert KEY not in shown + logged
    assert CALL_ID not in shown + logged
    assert RESULT not in metrics


@pytest.mark.requirement("tools:telemetry:configured")
def test_what_is_told_is_cut_and_masked() -> None:
    detail = ToolDetail(names=True, content=True, redactor=Redactor(["my-own-key"]), limit=20)
    assert detail.shown("short") == "short"
    assert detail.shown("x" * 30) == "x" * 20 + " [cut: 30 characters]"
    assert detail.shown("x" * 15 + "my-own-key") == "x" * 15 + "***"
    told_of = detail.of_call("n" * 30, "my-own-key", "{}")
    assert told_of == {
        "tool": "n" * 20 + " [cut: 30 characters]",
        "call_id": "***",
        "arguments": "{}",
    }
    assert ToolDetail().of_call("name", "id", "{}") == {}


@pytest.mark.anyio
@pytest.mark.requirement("tools:telemetry:configured")
async def test_parts_are_told_up_to_the_limit(log: io.StringIO) -> None:
    async def parts(_: ToolCall) -> Outcome:
        image = Part("input_image", image_url="data:image/png;base64," + "A" * 10_000)
        return Output(output=[Part("input_text", text="see"), image, image])

    async with (
        ModelServer([Reply(Call(NAME, {}, id="call_1")), "Well."]) as model,
        serving(
            model.url, adjust=install(LookupExecutor(parts)), telemetry={"tool_content": True}
        ) as api,
    ):
        await api.create(tools=[TOOL])
    (line,) = [line for line in log.getvalue().splitlines() if '"event":"tool call"' in line]
    assert '"result":"see\\n{\\"type\\":\\"input_image\\"' in line
    assert "characters]" in line
    assert len(line) < 6000


@pytest.mark.requirement("tools:telemetry:private")
def test_tool_types_cannot_fill_the_metrics() -> None:
    metrics = Metrics()
    for i in range(1000):
        metrics.tool_call(f"type{i}", "output", 0.1)
        metrics.tool_blocked(f"type{i}")
    metrics.tool_call("type0", "output", 0.1)
    shown, _ = metrics.expose("text/plain")
    assert 100 < shown.count(b"bascule_tool_calls_total{") < 300
    other = {"type": "other", "outcome": "output"}
    assert (metrics.registry.get_sample_value("bascule_tool_calls_total", other) or 0) > 700
    first = {"type": "type0", "outcome": "output"}
    assert metrics.registry.get_sample_value("bascule_tool_calls_total", first) == 2


def test_nothing_is_kept_ready_where_nothing_is_configured() -> None:
    from bascule.config import convert

    assert make_observer(convert({}, {})).tool_detail is None
