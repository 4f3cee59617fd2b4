"""A gateway process, shared by all tests here, in front of a model server that each test scripts."""

from collections.abc import AsyncGenerator, Generator

import pytest
from anyio.from_thread import start_blocking_portal
from openai import AsyncOpenAI, OpenAI

from bascule.testing import ModelServer, Reply, Request
from bascule.testing.answer import Answer, HttpAnswer
from bascule.testing.demo import answer as demo_answer
from tests.process import Running, gateway

Scripted = Reply | HttpAnswer | str


class Model:
    """The model server. It plays what a test gave it, and is the demo model when that is used up."""

    def __init__(self) -> None:
        self._replies: list[Scripted] = []
        self.server = ModelServer(self._answer, models=["bascule-demo", "scripted"])

    def play(self, *replies: Scripted) -> None:
        self._replies = list(replies)

    @property
    def last(self) -> Request:
        return self.server.chats[-1]

    def _answer(self, request: Request) -> Answer | str:
        return self._replies.pop(0) if self._replies else demo_answer(request)


@pytest.fixture(scope="session")
def _model() -> Generator[Model]:
    model = Model()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(model.server):
        yield model


@pytest.fixture
def model(_model: Model) -> Model:
    _model.play()
    return _model


@pytest.fixture(scope="session")
def served(_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    home = tmp_path_factory.mktemp("gateway")
    arguments = ["--upstream", _model.server.url, "--profile", "openai"]
    with gateway(home, *arguments) as running:
        yield running


@pytest.fixture
def client(served: Running) -> Generator[OpenAI]:
    base = f"{served.url}/v1"
    with OpenAI(base_url=base, api_key="none", max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
async def async_client(served: Running) -> AsyncGenerator[AsyncOpenAI]:
    base = f"{served.url}/v1"
    async with AsyncOpenAI(base_url=base, api_key="none", max_retries=0, timeout=20) as client:
        yield client
