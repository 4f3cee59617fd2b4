"""What a collector is told of a session, and that without one nothing is."""

import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bascule.agent.meters import OtelMeters, metrics_url
from bascule.agent.telemetry import Telemetry
from bascule.telemetry.observe import Observer
from bascule.telemetry.redact import Redactor
from bascule.telemetry.tool_detail import ToolDetail
from bascule.telemetry.tracing import Tracing
from tests.agent.world import function, said, scripted, world
from tests.process import ROOT

pytestmark = pytest.mark.anyio

SECRET = "k3y-of-the-user"


class Collector:
    def __init__(self, *, content: bool) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        detail = ToolDetail(names=True, content=content, redactor=Redactor([SECRET]), limit=100)
        self.tracing = Tracing("", exporter=self.spans)
        observer = Observer(tracing=self.tracing, tool_detail=detail)
        self.telemetry = Telemetry(observer, OtelMeters("http://x", reader=self.reader), detail)

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [
                        (dict(p.attributes or {}), getattr(p, "value", getattr(p, "count", None)))
                        for p in metric.data.data_points
                    ]
                    found[metric.name] = points
        return found


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.requirement("agent:telemetry")
async def test_spans_events_and_metrics(tmp_path: Path, content: bool) -> None:
    collector = Collector(content=content)
    calls = [
        function("exec_command", {"cmd": f"echo {SECRET}; seq 100"}, "call_1"),
        function("unknown_tool", {}, "call_2"),
        function("exec_command", {}, "call_3"),
    ]
    async with world(
        tmp_path, scripted(calls, [said("done")]), telemetry=collector.telemetry
    ) as it:
        await it.session.turn(f"use {SECRET}")
        metrics = collector.metrics()
        session_id = it.session.id
    spans = collector.spans.get_finished_spans()
    names = [span.name for span in spans]
    assert names.count("chat mock-model") == 2
    assert "invoke_agent bascule" in names
    assert sum(name.startswith("execute_tool") for name in names) == 2
    [turn] = [span for span in spans if span.name == "invoke_agent bascule"]
    events = [(event.name, dict(event.attributes or {})) for event in turn.events]
    kinds = [name for name, _ in events]
    assert kinds.count("bascule.api_request") == 2
    assert kinds.count("bascule.tool_decision") == 1
    assert kinds.count("bascule.tool_result") == 2
    results = {told["call_id"]: told for name, told in events if name == "bascule.tool_result"}
    first, third = results["call_1"], results["call_3"]
    assert {"tool_result_seq", "duration_ms", "output_truncated"} <= set(first)
    assert (first["tool_name"], first["tool_namespace"], first["success"], first["outcome"]) == (
        "exec_command",
        "functions",
        True,
        "completed",
    )
    assert (third["success"], third["outcome"]) == (False, "failed")
    assert (first["conversation_id"], first["originator"], first["model"]) == (
        session_id,
        "bascule",
        "mock-model",
    )
    whole = str([(name, told) for name, told in events])
    assert SECRET not in whole
    assert ("echo ***" in whole) == content
    assert ("output" in first) == content
    if content:
        assert "[cut: " in str(first["output"])
    prompts = [told for name, told in events if name == "bascule.user_prompt"]
    assert ("prompt" in prompts[0]) == content
    tool_calls = {
        tuple(sorted(labels.items())): value
        for labels, value in metrics["bascule.agent.tool.calls"]
    }
    assert sorted(tool_calls.values()) == [1, 1]
    tokens = {
        labels["gen_ai.token.type"]: value for labels, value in metrics["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 24, "output": 14}
    assert metrics["gen_ai.client.operation.duration"][0][0]["gen_ai.request.model"] == "mock-model"
    assert metrics["bascule.agent.turn.tool.calls"][0][1] == 2
    assert {
        labels["bascule.exposure"] for labels, _ in metrics["bascule.agent.tools.registered"]
    } == {"direct", "deferred", "hidden"}


async def test_without_a_collector_nothing_is_loaded(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys, bascule.cli.exec\n"
        "loaded = [m for m in sys.modules if m.split('.')[0] in ('opentelemetry', 'mcp', 'pydantic', 'starlette')]\n"
        "print(loaded)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"


def test_where_metrics_go() -> None:
    assert metrics_url("http://c:4318") == "http://c:4318/v1/metrics"
    assert metrics_url("http://c:4318/v1/traces") == "http://c:4318/v1/metrics"
