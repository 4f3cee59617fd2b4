"""A real model server: the one that `--upstream` names, else llama.cpp's with a small model."""

import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from bascule.gateway.serve import make_client
from bascule.upstreams.discovery import identify
from bascule.upstreams.routing import base_url
from tests.real import llama_server
from tests.serving import Api, serving

_lines: list[str] = []


@dataclass(frozen=True)
class Real:
    """A server under test."""

    url: str
    model: str
    small: bool
    """It is the small model, with its known room of 2048 tokens."""


@pytest.fixture(scope="session")
def real(request: pytest.FixtureRequest) -> Iterator[Real]:
    url, model = request.config.getoption("upstream"), request.config.getoption("model")
    if url is not None:
        url = base_url(url)
        yield Real(url, model or _first_model(url), small=False)
        return
    with llama_server.running() as base:
        yield Real(base, model or "smollm2", small=True)


def _first_model(url: str) -> str:
    with urllib.request.urlopen(f"{url}/models", timeout=20) as answer:
        listed: Any = msgspec.json.decode(answer.read())
    return listed["data"][0]["id"]


@pytest.fixture(params=["chat", "responses"])
async def api(request: pytest.FixtureRequest, real: Real) -> AsyncIterator[Api]:
    """A gateway in front of it, by each of the protocols."""
    client = make_client()
    profile = await identify(client, real.url)
    await client.aclose()
    options: dict[str, Any] = {"profile": profile, "protocol": request.param}
    async with serving(real.url, upstream_options=options) as api:
        api.model = real.model
        api.limit = 300.0
        yield api


@pytest.fixture
def enforces(request: pytest.FixtureRequest, real: Real) -> bool:
    """Whether the server is known to obey a schema: llama.cpp's does on Chat Completions."""
    return real.small and request.node.callspec.params["api"] == "chat"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call":
        _lines.append(f"{report.outcome:7} {report.duration:6.1f} s  {item.name}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _lines:
        terminalreporter.section("a real model server")
        for line in _lines:
            terminalreporter.line(line)
