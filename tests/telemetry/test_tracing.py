"""Spans: request, turn, round, tool; nothing where none are configured."""

import asyncio
import gzip
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from bascule.gateway.access import AccessLog
from bascule.telemetry import genai
from bascule.telemetry.observe import Observer
from bascule.telemetry.tracing import Tracing, traces_url
from bascule.testing import Call, ModelServer, Reply, Text, Usage, http_error
from bascule.testing.script import Script
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "req-1"}
SECRET = "the-secret-content"


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


async def _spans(
    script: Script, request: dict[str, Any], headers: dict[str, str]
) -> tuple[list[ReadableSpan], list[dict[str, str]]]:
    """The spans of one turn, and the headers that its model server saw."""
    kept = Kept()

    def adjust(gateway: Any) -> None:
        install(LookupExecutor(found))(gateway)
        gateway.engine.observer = Observer(tracing=Tracing("http://unused", exporter=kept))
        gateway._access = AccessLog(gateway.engine.observer, gateway._others.routes)

    async with ModelServer(script) as model, serving(model.url, adjust=adjust) as api:
        await api.create(headers=headers, **request)
        await asyncio.to_thread(api.engine.observer.close)
        return kept.spans, [dict(chat.headers) for chat in model.chats]


def _parent(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def _id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


@pytest.mark.anyio
@pytest.mark.requirement("operation:traces")
@pytest.mark.parametrize("stream", [True, False])
async def test_request_turn_round_and_tool(stream: bool) -> None:
    usage = Usage(prompt=20, completion=3, cached=8, reasoning=1)
    script = [Reply(Call("lookup", {"q": SECRET}), usage), Reply(Text(SECRET), usage)]
    request = {"tools": [TOOL], "stream": stream, "input": SECRET}
    spans, sent = await _spans(script, request, CALLER)
    by_name: dict[str, list[ReadableSpan]] = {}
    for span in spans:
        by_name.setdefault(span.name, []).append(span)
    assert {name: len(all_) for name, all_ in by_name.items()} == {
        "POST /v1/responses": 1,
        "invoke_agent bascule": 1,
        "chat mock-model": 2,
        "execute_tool lookup": 1,
    }
    (top,), (turn,) = by_name["POST /v1/responses"], by_name["invoke_agent bascule"]
    rounds, (tool,) = by_name["chat mock-model"], by_name["execute_tool lookup"]
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE}
    assert (_parent(top), _parent(turn)) == (PARENT, _id(top))
    assert {_parent(span) for span in (*rounds, tool)} == {_id(turn)}
    assert [chat["traceparent"] for chat in sent] == [f"00-{TRACE}-{_id(r)}-01" for r in rounds]
    facts = rounds[0].attributes or {}
    assert facts[genai.OPERATION] == "chat"
    assert (facts[genai.PROVIDER], facts[genai.REQUEST_MODEL]) == ("mock", "mock-model")
    assert (facts[genai.INPUT_TOKENS], facts[genai.OUTPUT_TOKENS]) == (20, 3)
    assert (genai.FIRST_CHUNK_SECONDS in facts) == stream
    facts = turn.attributes or {}
    assert str(facts[genai.RESPONSE_ID]).startswith("resp_")
    assert (facts[genai.TURN_STATUS], facts[genai.TURN_ROUNDS]) == ("completed", 2)
    assert facts[genai.INPUT_TOKENS] == 40
    facts = tool.attributes or {}
    assert facts[genai.TOOL_TYPE] == "lookup"
    assert genai.TOOL_NAME not in facts
    assert facts[genai.TOOL_OUTCOME] == "output"
    facts = top.attributes or {}
    assert (facts[genai.HTTP_STATUS], facts[genai.REQUEST_ID]) == (200, "req-1")
    assert SECRET not in "".join(span.to_json() for span in spans)


@pytest.mark.anyio
@pytest.mark.requirement("operation:traces")
async def test_faults_are_marked() -> None:
    spans, _ = await _spans(http_error(500, SECRET), {"stream": True}, {})
    errors = {span.name: (span.attributes or {}).get(genai.ERROR_TYPE) for span in spans}
    assert errors["chat mock-model"] == "http_5xx"
    assert errors["invoke_agent bascule"]
    assert errors["POST /v1/responses"] == "500"
    assert all(not span.status.is_ok for span in spans)
    assert SECRET not in "".join(span.to_json() for span in spans)


@pytest.mark.anyio
@pytest.mark.requirement("operation:traces")
async def test_spans_reach_a_collector() -> None:
    received: list[bytes] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        received.extend([head.split(b" ")[1], await reader.readexactly(length)])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    collector = await asyncio.start_server(collect, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{collector.sockets[0].getsockname()[1]}"
    telemetry = {"otlp_endpoint": endpoint}
    async with ModelServer("Hi") as model, serving(model.url, telemetry=telemetry) as api:
        await api.create()
    collector.close()
    path, body = received
    assert path == b"/v1/traces"
    plain = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
    (resource,) = ExportTraceServiceRequest.FromString(plain).resource_spans
    names = {span.name for scope in resource.scope_spans for span in scope.spans}
    assert names == {"POST /v1/responses", "invoke_agent bascule", "chat mock-model"}


@pytest.mark.requirement("operation:traces")
def test_without_an_endpoint_nothing_of_it_is_loaded() -> None:
    code = "import sys, bascule.cli.main; print([m for m in sys.modules if 'opentelemetry' in m])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("http://h:4318/", "http://h:4318/v1/traces"),
        ("http://h/own/path", "http://h/own/path"),
    ],
)
def test_the_collectors_address(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url
