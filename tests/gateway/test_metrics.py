"""GET /metrics: what is counted, under which labels, and for whom."""

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bascule.testing import Call, Cut, Gate, ModelServer, Reply, Text, Usage, http_error
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Failed, Outcome
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

MODELS = [{"name": "known", "upstream": "mock", "model": "mock-model", "aliases": ["k"]}]
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


async def scrape(api: Api, **headers: str) -> Callable[..., float]:
    """A look-up of samples: name and labels; 0 where there is none."""
    answer = await api.send("GET", "/metrics", headers=headers)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [
        sample
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    ]

    def value(name: str, **labels: str) -> float:
        return sum(
            s.value
            for s in samples
            if s.name == name and labels.items() <= (s.labels or {}).items()
        )

    value.names = {s.name for s in samples}  # type: ignore[attr-defined]
    value.labels = [s.labels for s in samples]  # type: ignore[attr-defined]
    return value


@pytest.mark.requirement("operation:metrics:counted")
async def test_a_turn_in_numbers() -> None:
    usage = Usage(prompt=100, completion=7, cached=40, reasoning=3)
    script = [Reply(Text("Hi"), usage), Reply(Text("Hi"), usage)]
    async with ModelServer(script) as model, serving(model.url, models=MODELS) as api:
        await api.create(model="known", stream=True)
        await api.create(model="k")
        value = await scrape(api)
    where = {"upstream": "mock", "model": "known"}
    assert value("bascule_turns_total", **where, status="completed") == 2
    assert value("bascule_rounds_total", **where) == 2
    for name in ("turn_seconds", "upstream_seconds", "upstream_head_seconds"):
        assert value(f"bascule_{name}_count", **where) == 2, name
        assert value(f"bascule_{name}_sum", **where) > 0, name
    assert value("bascule_time_to_first_token_seconds_count", **where) == 1  # streams only
    assert value("bascule_store_commit_seconds_count") == 2
    for kind, count in {"input": 200, "output": 14, "cached": 80, "reasoning": 6}.items():
        assert value("bascule_tokens_total", **where, kind=kind) == count
    assert value("bascule_running_turns") == 0
    assert value("bascule_open_streams") == 0
    created = {"method": "POST", "route": "/v1/responses", "status": "200"}
    assert value("bascule_http_requests_total", **created) == 2
    assert value("process_resident_memory_bytes") > 0


@pytest.mark.requirement("operation:metrics:counted")
async def test_what_is_under_way() -> None:
    async with ModelServer(Reply(Text("Hi"), Gate("go"))) as model, serving(model.url) as api:
        async with api.open() as pieces:
            await anext(pieces)
            await model.reached("go")
            value = await scrape(api)
            assert (value("bascule_running_turns"), value("bascule_open_streams")) == (1, 1)
            model.open("go")
            async for _ in pieces:
                pass
        value = await scrape(api)
        assert (value("bascule_running_turns"), value("bascule_open_streams")) == (0, 0)


@pytest.mark.requirement("operation:metrics:counted")
@pytest.mark.parametrize(
    ("reply", "stream", "status", "kind"),
    [
        (http_error(400, "no"), True, "refused", "http_4xx"),
        (http_error(429, "no"), True, "refused", "http_429"),
        (http_error(500, "no"), False, "refused", "http_5xx"),
        (Reply(Text("Hi"), Cut()), True, "failed", "closed"),
    ],
)
async def test_faults_of_a_model_server(reply: Any, stream: bool, status: str, kind: str) -> None:
    async with ModelServer(reply, then="repeat") as model, serving(model.url) as api:
        await api.create(stream=stream)
        value = await scrape(api)
    assert value("bascule_turns_total", status=status) == value("bascule_turns_total") == 1
    errors = "bascule_upstream_errors_total"
    assert value(errors, upstream="mock", kind=kind) == value(errors) == 1


@pytest.mark.requirement("operation:metrics:counted")
async def test_a_server_that_is_not_there() -> None:
    async with serving("http://127.0.0.1:9") as api:
        assert (await api.create()).status == 502
        value = await scrape(api)
    assert value("bascule_upstream_errors_total", kind="connect") == 1
    assert value("bascule_upstream_head_seconds_count") == 0


@pytest.mark.requirement("operation:metrics:counted")
async def test_a_client_that_leaves() -> None:
    async with ModelServer(Reply(Text("Hi"), Gate("never"))) as model, serving(model.url) as api:
        async with api.open() as pieces:
            await anext(pieces)
            await model.reached("never")
        await model.wait_disconnected()
        value = await scrape(api)
        for _ in range(100):
            if value("bascule_turns_total"):
                break
            value = await scrape(api)
        assert value("bascule_turns_total", status="cancelled") == 1
        assert value("bascule_upstream_errors_total", kind="cancelled") == 1


async def _raises(_: ToolCall) -> Outcome:
    raise RuntimeError("no")


async def _fails(_: ToolCall) -> Outcome:
    return Failed(message="no")


@pytest.mark.requirement("operation:metrics:counted")
@pytest.mark.parametrize(
    ("answering", "outcome"), [(found, "output"), (_fails, "failed"), (_raises, "failed")]
)
async def test_calls_by_type_and_outcome(answering: Any, outcome: str) -> None:
    calls = Reply(Call("lookup", {}), Call("look", {}), Call("invented", {}))
    executor = LookupExecutor(answering)
    async with (
        ModelServer([calls]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        await api.create(tools=[TOOL, FUNCTION])
        value = await scrape(api)
    name = "bascule_tool_calls_total"
    assert value(name, type="lookup", outcome=outcome) == 1
    assert value(name, type="function", outcome="client") == 1
    assert value(name, type="undeclared", outcome="client") == 1
    assert value(name) == 3
    assert value("bascule_tool_seconds_count", type="lookup") == 1


@pytest.mark.requirement("operation:metrics:bounded")
async def test_what_clients_make_up_makes_no_series() -> None:
    async with (
        ModelServer(Reply("Hi"), then="repeat") as model,
        serving(model.url, models=MODELS) as api,
    ):
        await api.create(model="known")
        await api.create(model="made-up-1")
        await api.create(model="mock/made-up-2", stream=True)
        await api.send("GET", "/v1/responses/resp_madeup3")
        await api.send("GET", "/made-up-4")
        await api.send("PURGE", "/v1/responses/made-up-6")
        answer = await api.send("GET", "/metrics")
        value = await scrape(api)
    assert b"made" not in answer.body
    assert b"PURGE" not in answer.body
    assert value("bascule_turns_total", model="other") == 2
    assert value("bascule_turns_total", model="known") == 1
    requests = "bascule_http_requests_total"
    assert value(requests, route="/v1/responses/{response_id}", method="GET", status="404") == 1
    assert value(requests, route="other", method="GET", status="404") == 1
    assert value(requests, method="other") == 1


@pytest.mark.requirement("operation:metrics:key")
async def test_with_keys_the_metrics_need_one() -> None:
    server = {"api_keys": ["sk-client"]}
    async with ModelServer("Hi") as model, serving(model.url, server=server) as api:
        assert (await api.send("GET", "/metrics")).status == 401
        await scrape(api, authorization="Bearer sk-client")


@pytest.mark.requirement("operation:metrics:key")
@pytest.mark.parametrize("keys", [[], ["sk-client"]])
async def test_a_key_for_the_metrics_alone(keys: list[str]) -> None:
    sections: dict[str, Any] = {
        "server": {"api_keys": keys},
        "telemetry": {"metrics_key": "sk-scraper"},
    }
    async with ModelServer("Hi", then="repeat") as model, serving(model.url, **sections) as api:
        assert (await api.send("GET", "/metrics")).status == 401
        scraper = {"authorization": "Bearer sk-scraper"}
        await scrape(api, **scraper)
        created = await api.create(headers=scraper)
        assert created.status == (401 if keys else 200)
        for key in keys:
            await scrape(api, authorization=f"Bearer {key}")


async def test_the_form_that_the_scraper_accepts() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.send(
            "GET", "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
        )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_two_gateways_in_one_process_count_apart() -> None:
    async with (
        ModelServer("Hi", then="repeat") as model,
        serving(model.url) as one,
        serving(model.url) as other,
    ):
        await one.create()
        assert (await scrape(one))("bascule_turns_total") == 1
        assert (await scrape(other))("bascule_turns_total") == 0
