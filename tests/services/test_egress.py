"""The guard before what requests name, attacked."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from bascule.config import ConfigError
from bascule.services.egress import EgressError, EgressPolicy, Guard
from bascule.services.guarded import TooLarge, http_client

LINES = Path(__file__).with_name("hostile_urls.txt").read_text().splitlines()
HOSTILE = [line for line in LINES if line and not line.startswith("#")]
LIMIT = 10.0


class Names:
    """A resolver with a table; a list of several answers is given one after the other."""

    def __init__(self, **table: list[Sequence[str]]) -> None:
        self._table = table
        self.asked = 0

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        answers = self._table.get(host.replace(".", "_").replace("-", "_"), [])
        if not answers:
            raise OSError("no such host")
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Trap:
    """Counts who comes."""

    def __init__(self) -> None:
        self.port = 0
        self.met: list[bytes] = []

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret")
        writer.close()


@asynccontextmanager
async def trap() -> AsyncGenerator[Trap]:
    set_up = Trap()
    server = await asyncio.start_server(set_up.meet, "127.0.0.1", 0)
    set_up.port = server.sockets[0].getsockname()[1]
    async with server:
        yield set_up


async def get(url: str, guard: Guard, max_bytes: int = 1000) -> httpx2.Response:
    timeout = httpx2.Timeout(LIMIT)
    async with http_client(guard=guard, max_bytes=max_bytes, timeout=timeout) as client:
        return await client.get(url)


def test_there_are_enough_of_them() -> None:
    assert len(HOSTILE) >= 60


@pytest.mark.anyio
@pytest.mark.parametrize("url", HOSTILE)
@pytest.mark.requirement("egress:public-only")
async def test_a_hostile_url(url: str) -> None:
    """Whatever the resolver makes of it, nothing on this machine hears of it."""
    async with trap() as set_up:
        names = Names(metadata=[["169.254.169.254"]], example_com=[["93.184.216.34"]])
        full = url.replace("{port}", str(set_up.port))
        try:
            parsed = httpx2.URL(full)
        except httpx2.InvalidURL:
            return
        if parsed.host == "example.com" and not parsed.userinfo and parsed.scheme == "http":
            assert await Guard(EgressPolicy(), names).addresses(parsed) == ["93.184.216.34"]
            return
        with pytest.raises((EgressError, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)):
            await get(full, Guard(EgressPolicy(), names))
        assert set_up.met == []


@pytest.mark.anyio
@pytest.mark.requirement("egress:rebinding")
async def test_the_answer_that_was_judged_is_what_connects() -> None:
    async with trap() as set_up:
        names = Names(site_test=[["127.0.0.1"], ["10.0.0.1"]])
        guard = Guard(EgressPolicy(hosts=frozenset({"site.test"})), names)
        answer = await get(f"http://site.test:{set_up.port}/", guard)
        assert (answer.text, names.asked) == ("secret", 1)
        assert f"host: site.test:{set_up.port}".encode() in set_up.met[0].lower()
        # A name that first means a public address, then this machine.
        turning = Names(site_test=[["93.184.216.34"], ["127.0.0.1"]])
        strict = Guard(EgressPolicy(), turning)
        url = httpx2.URL(f"http://site.test:{set_up.port}/")
        assert await strict.addresses(url) == ["93.184.216.34"]
        with pytest.raises(EgressError):
            await strict.addresses(url)


@pytest.mark.anyio
@pytest.mark.requirement("egress:every-answer")
async def test_one_private_answer_is_enough() -> None:
    names = Names(site_test=[["93.184.216.34", "10.0.0.1"]])
    with pytest.raises(EgressError, match=r"may not connect to 'site\.test'") as blocked:
        await get("http://site.test/", Guard(EgressPolicy(), names))
    assert "10.0.0.1" not in blocked.value.message
    with pytest.raises(EgressError, match="cannot be found"):
        await get("http://nowhere.test/", Guard(EgressPolicy(), Names()))


@pytest.mark.anyio
@pytest.mark.requirement("egress:allowed")
async def test_what_the_operator_allows() -> None:
    async with trap() as set_up:
        by_host = EgressPolicy.of(["127.0.0.1", "Localhost."], [], "security")
        by_network = EgressPolicy.of([], ["127.0.0.0/8"], "security")
        for host, policy in (
            ("127.0.0.1", by_host),
            ("localhost", by_host),
            ("127.0.0.1", by_network),
            ("127.0.0.1", EgressPolicy().joined(by_network)),
        ):
            answer = await get(f"http://{host}:{set_up.port}/", Guard(policy))
            assert answer.text == "secret"
        with pytest.raises(EgressError):
            await get(f"http://[::1]:{set_up.port}/", Guard(by_network))


@pytest.mark.parametrize(
    ("hosts", "networks", "place"),
    [
        (["a:80"], [], r"x\.allow_hosts\[0\]"),
        (["ok", "http://a"], [], r"x\.allow_hosts\[1\]"),
        ([""], [], r"x\.allow_hosts\[0\]"),
        ([], ["10.0.0.0/8", "here"], r"x\.allow_networks\[1\]"),
    ],
)
def test_a_wrong_list(hosts: list[str], networks: list[str], place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        EgressPolicy.of(hosts, networks, "x")


@pytest.mark.anyio
@pytest.mark.requirement("egress:no-redirects")
async def test_no_proxy_and_no_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    async with trap() as set_up:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{set_up.port}")
        monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{set_up.port}")

        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            where = f"http://127.0.0.1:{set_up.port}/".encode()
            writer.write(
                b"HTTP/1.1 302 Found\r\nlocation: " + where + b"\r\ncontent-length: 0\r\n\r\n"
            )
            writer.close()

        async with await asyncio.start_server(redirect, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            guard = Guard(EgressPolicy(hosts=frozenset({"127.0.0.1"})))
            answer = await get(f"http://127.0.0.1:{port}/", guard)
        assert answer.status_code == 302
        assert set_up.met == []


@pytest.mark.anyio
@pytest.mark.requirement("egress:size")
async def test_an_answer_without_an_end() -> None:
    closed = asyncio.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            closed.set()

    async with await asyncio.start_server(pour, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        guard = Guard(EgressPolicy(hosts=frozenset({"127.0.0.1"})))
        with pytest.raises(TooLarge, match="more than 100000 bytes"):
            await get(f"http://127.0.0.1:{port}/", guard, 100_000)
        await asyncio.wait_for(closed.wait(), LIMIT)
