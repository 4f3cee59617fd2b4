"""A gateway that is killed loses no response whose end a client saw."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from bascule.testing import ModelServer
from bascule.upstreams.client import UpstreamRequest
from bascule.upstreams.fetch import fetch, stream
from bascule.upstreams.http1 import Http1Client

pytestmark = pytest.mark.anyio


class Process:
    """A gateway process on a free port."""

    def __init__(self, upstream: str, state: str, home: Path) -> None:
        self._arguments = ["--port", "0", "--upstream", upstream, "--profile", "openai"]
        self._arguments += ["--state", state]
        self._environment = {**os.environ, "XDG_DATA_HOME": str(home)}

    async def __aenter__(self) -> "Process":
        command = [sys.executable, "-m", "bascule.cli", "serve", *self._arguments]
        self.process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environment,
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            line = await self.process.stdout.readline()
        self.url = line.decode().split()[-1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


async def turns(client: Http1Client, url: str, seen: list[str]) -> None:
    """Streams turns until the gateway is gone; notes each response whose terminal event came."""
    body = msgspec.json.encode({"model": "m", "input": "Hello", "stream": True})
    request = UpstreamRequest(url=f"{url}/v1/responses", body=body)
    while True:
        data = b""
        async with stream(client, request) as answer:
            async for piece in answer:
                data += piece
                if b"event: response.completed" in data and data.endswith(b"\n\n"):
                    last = data[data.rindex(b"data: ") + 6 :]
                    seen.append(msgspec.json.decode(last)["response"]["id"])


@pytest.fixture(params=["sqlite", "postgresql"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    return request.getfixturevalue("postgres_url")


async def test_kill_minus_nine_loses_nothing_that_was_announced(state: str, tmp_path: Path) -> None:
    seen: list[str] = []
    client = Http1Client()
    async with ModelServer(lambda _: "Hello there") as model:
        for _ in range(2):
            async with Process(model.url, state, tmp_path) as gateway:
                tasks = [asyncio.ensure_future(turns(client, gateway.url, seen)) for _ in range(8)]
                target = len(seen) + 40
                async with asyncio.timeout(20):
                    while len(seen) < target:
                        await asyncio.sleep(0.005)
                gateway.process.send_signal(signal.SIGKILL)
                await gateway.process.wait()
                await asyncio.gather(*tasks, return_exceptions=True)
        async with Process(model.url, state, tmp_path) as gateway:
            for id_ in seen:
                url = f"{gateway.url}/v1/responses/{id_}"
                answer = await fetch(client, UpstreamRequest(url=url, method="GET"))
                response = msgspec.json.decode(answer.body)
                assert answer.status == 200, id_
                assert response["status"] == "completed"
                assert response["output"][0]["content"][0]["text"] == "Hello there"
    await client.aclose()
    assert len(seen) >= 80
