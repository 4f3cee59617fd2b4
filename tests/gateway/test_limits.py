"""Sizes and numbers that are bounded: bodies, compressed bodies, items, tools, turns."""

import asyncio
import gzip
import resource
import zlib
from typing import Any

import msgspec
import pytest
import zstandard

from bascule.gateway.body import read_body
from bascule.protocols.errors import ApiError
from bascule.testing import Gate, ModelServer, Reply
from tests.gateway.leaks import commits_of, nothing_left, until
from tests.gateway.raw import connected, request
from tests.serving import serving

pytestmark = pytest.mark.anyio

BODY = msgspec.json.encode({"model": "mock-model", "input": "Hello"})
LIMIT = 100_000
SMALL: dict[str, Any] = {"max_body_bytes": LIMIT}


def zstd(data: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


def zstd_of_unknown_size(data: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


def padded(size: int) -> bytes:
    head = b'{"model":"mock-model","input":"'
    return head + b"x" * (size - len(head) - 2) + b'"}'


async def test_the_limit_is_exact() -> None:
    async with ModelServer("Hi") as model, serving(model.url, limits=SMALL) as api:
        for size, status in ((LIMIT, 200), (LIMIT + 1, 413), (3 * LIMIT, 413)):
            for pack, encoding in ((bytes, ""), (gzip.compress, "gzip"), (zstd, "zstd")):
                headers = {"content-encoding": encoding} if encoding else {}
                answer = await api.send("POST", "/v1/responses", pack(padded(size)), headers)
                assert answer.status == status, (size, encoding)
                if status == 413:
                    assert answer.error["code"] == "request_too_large"
        assert len(model.chats) == 3


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstd),
        ("zstd", zstd_of_unknown_size),
        ("identity", bytes),
    ],
)
async def test_encodings(encoding: str, pack: Any) -> None:
    async with ModelServer("Hi") as model, serving(model.url, limits=SMALL) as api:
        headers = {"content-encoding": encoding}
        whole = pack(BODY)
        assert (await api.send("POST", "/v1/responses", whole, headers)).status == 200
        for broken in (whole[:-1], whole[: len(whole) // 2], b"", b"nonsense", b"\0" + whole):
            answer = await api.send("POST", "/v1/responses", broken, headers)
            assert answer.status == 400, broken
            assert answer.error["message"]


@pytest.mark.parametrize("encoding", ["br", "compress", "gzip, br", "x" * 500, '"'])
async def test_unknown_encodings_are_a_415(encoding: str) -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.send(
            "POST", "/v1/responses", gzip.compress(BODY), {"content-encoding": encoding}
        )
        assert answer.status == 415
        assert answer.error["type"] == "invalid_request_error"


def _bombs() -> dict[str, tuple[str, bytes]]:
    zeros = bytes(300_000_000)
    return {
        "gzip": ("gzip", gzip.compress(zeros, 9)),
        "zstd": ("zstd", zstd(zeros, 19)),
        "zstd of unknown size": ("zstd", zstd_of_unknown_size(zeros)),
    }


async def test_a_bomb_does_not_burst() -> None:
    bombs = _bombs()

    async def expand(encoding: str, bomb: bytes) -> int:
        async def receive() -> Any:
            return {"type": "http.request", "body": bomb}

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ApiError) as caught:
            await read_body(receive, [(b"content-encoding", encoding.encode())], LIMIT)
        assert caught.value.status == 413
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    # Making the bombs has raised the high-water mark already, so this is a lower bound of the fault.
    for name, (encoding, bomb) in bombs.items():
        assert await expand(encoding, bomb) < 40_000, name  # kilobytes


async def test_a_zstd_window_beyond_the_rfc_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = packer.compress(BODY) + packer.flush()
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.send("POST", "/v1/responses", data, {"content-encoding": "zstd"})
    assert answer.status == 400


async def test_the_rest_of_a_body_that_is_too_large_is_not_awaited() -> None:
    async with ModelServer("Hi") as model, serving(model.url, limits=SMALL) as api:
        async with connected(api.url) as client:
            client.write(request(body=b"x" * (LIMIT + 1), length=10_000_000))
            status, _, body = await client.answer()
            assert (status, msgspec.json.decode(body)["error"]["code"]) == (
                413,
                "request_too_large",
            )
        await nothing_left(api)


@pytest.mark.parametrize(
    ("limits", "fields", "param"),
    [
        ({"max_items": 2}, {"input": [{"role": "user", "content": "x"}] * 3}, "input"),
        (
            {"max_tools": 2},
            {"tools": [{"type": "function", "name": f"f{n}"} for n in range(3)]},
            "tools",
        ),
    ],
)
async def test_items_and_tools(limits: Any, fields: Any, param: str) -> None:
    async with ModelServer("Hi") as model, serving(model.url, limits=limits) as api:
        answer = await api.create(**fields)
        assert (answer.status, answer.error["param"]) == (400, param)
        fields = {name: value[:2] for name, value in fields.items()}
        assert (await api.create(**fields)).status == 200


async def test_turns_beyond_the_limit_are_refused_at_once() -> None:
    limits = {"max_concurrent_turns": 2}
    kept: list[Any] = []
    async with (
        ModelServer(Reply("Hi", Gate("go"))) as model,
        serving(
            model.url, limits=limits, adjust=lambda gateway: kept.append(commits_of(gateway))
        ) as api,
    ):
        running = [asyncio.ensure_future(api.create(stream=True)) for _ in range(2)]
        await model.wait_requests(2)
        for stream in (True, False):
            refused = await api.create(stream=stream)
            assert refused.status == 503
            assert refused.error["code"] == "server_is_overloaded"
            assert refused.headers["retry-after"] == "1"
        assert kept == [[]]
        model.open("go")
        assert [(await turn).status for turn in running] == [200, 200]
        await until(lambda: not api.gateway._create._running, "the turns to end")
        assert (await api.create()).status == 200


async def test_the_limit_of_turns_holds_also_for_bodies_that_came_slowly() -> None:
    limits = {"max_concurrent_turns": 1}
    async with (
        ModelServer(Reply("Hi", Gate("go"))) as model,
        serving(model.url, limits=limits) as api,
        connected(api.url) as one,
        connected(api.url) as other,
    ):
        whole = request(body={"stream": True})
        for client in (one, other):
            client.write(whole[:-5])
        # Both requests have been taken when this one is answered.
        assert (await api.send("GET", "/health")).status == 200
        await asyncio.sleep(0.05)
        for client in (one, other):
            client.write(whole[-5:])
        await model.wait_requests(1)
        heads = await asyncio.wait(
            [asyncio.ensure_future(c.head()) for c in (one, other)], return_when="ALL_COMPLETED"
        )
        statuses = sorted(task.result()[0] for task in heads[0])
        assert statuses == [200, 503]
        model.open("go")


async def test_several_encodings_are_undone_from_the_last_to_the_first() -> None:
    packed = gzip.compress(zstd(BODY))
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.send("POST", "/v1/responses", packed, {"content-encoding": "zstd, gzip"})
    assert answer.status == 200
