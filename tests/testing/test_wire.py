"""Everything that can go wrong on the way, and how it looks on the socket."""

from typing import Any

import msgspec
import pytest

from bascule.testing import (
    BadJson,
    Chunk,
    Comment,
    Cut,
    Data,
    Eof,
    Flood,
    HalfLine,
    ModelServer,
    Raw,
    Reply,
    StreamError,
    Text,
    Verbatim,
    Wire,
    empty,
    head_only,
    html,
    http_error,
    http_json,
    silence,
)
from tests.testing.http import Client, Received, ask, chat_body

pytestmark = pytest.mark.anyio


async def stream(*steps: Any, **options: Any) -> Received:
    async with ModelServer(Reply(*steps, **options)) as server:
        return await ask(server, stream=True)


async def test_a_plain_stream_is_chunked_and_ends_with_done() -> None:
    answer = await stream("hi")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.done
    assert answer.complete
    assert len(answer.chunks) == 4


async def test_eof_without_finish_or_done() -> None:
    answer = await stream("hi", Eof())
    assert answer.complete
    assert not answer.done
    assert [event["choices"][0]["finish_reason"] for event in answer.events] == [None, None]


async def test_cut_closes_in_the_middle() -> None:
    for cut in (Cut(), Cut(mid_chunk=True)):
        answer = await stream("hi", cut)
        assert not answer.complete
        assert answer.deltas[-1] == {"content": "hi"}
    assert answer.body.endswith(b"data: ")


async def test_cut_with_a_reset() -> None:
    async with ModelServer(Reply("hi", Cut(reset=True))) as server, Client(server) as client:
        await client.send(body=chat_body(stream=True))
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


async def test_cut_of_a_whole_answer_breaks_its_body() -> None:
    async with ModelServer(Reply("hi", Cut())) as server:
        answer = await ask(server)
    assert not answer.complete
    with pytest.raises(msgspec.DecodeError):
        _ = answer.json


async def test_half_a_line() -> None:
    answer = await stream("hi", HalfLine(), Eof())
    assert answer.body.endswith(b'"del')
    assert answer.complete


async def test_bad_json_in_both_renderings() -> None:
    async with ModelServer(Reply("hi", BadJson("{nope"))) as server:
        assert "{nope" in (await ask(server, stream=True)).data
        whole = await ask(server)
    assert whole.body == b"{nope"
    assert whole.headers["content-type"] == "application/json"


async def test_raw_bytes_comments_data_and_chunks_are_verbatim() -> None:
    answer = await stream(
        Raw(b"\xff\x00"), Comment(" PING"), Data("a\nb", event="x"), Chunk({"choices": []}), Eof()
    )
    assert answer.body == (
        b'\xff\x00: PING\n\nevent: x\ndata: a\ndata: b\n\ndata: {"choices":[]}\n\n'
    )


async def test_megabytes_without_a_newline() -> None:
    answer = await stream(Flood(3_000_000), Eof())
    assert answer.body == b"data: " + b"x" * 3_000_000


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_line_ends_and_spaces(line_end: Any) -> None:
    answer = await stream("hi", wire=Wire(line_end=line_end, space=False))
    assert answer.body.startswith(b"data:{")
    assert answer.body.endswith(f"data:[DONE]{line_end * 2}".encode())
    assert answer.body.count(line_end.encode() * 2) == 4


@pytest.mark.parametrize(("last", "end"), [("no_blank", b"[DONE]\n"), ("no_newline", b"[DONE]")])
async def test_the_final_frame_can_lack_its_blank_line(last: Any, end: bytes) -> None:
    answer = await stream("hi", wire=Wire(last_frame=last))
    assert answer.body.endswith(end)
    assert not answer.body.endswith(b"\n\n")


async def test_data_over_several_lines() -> None:
    answer = await stream("hi", wire=Wire(multiline=True))
    assert b"\ndata:   " in answer.body
    assert answer.deltas[1] == {"content": "hi"}


async def test_several_events_in_one_write() -> None:
    answer = await stream(Text("abcdef", chunks=6), wire=Wire(group=4))
    assert [chunk.count(b"\n\n") for chunk in answer.chunks] == [4, 4, 1]


async def test_each_event_split_at_byte_offsets() -> None:
    answer = await stream("å", wire=Wire(split=[1, 5]))
    assert [len(chunk) for chunk in answer.chunks][:2] == [1, 4]
    assert answer.chunks[0] == b"d"
    assert answer.deltas[1] == {"content": "å"}
    at = answer.body.index("å".encode()) - answer.body.index(b"\n\n") - 2
    cut = await stream("å", wire=Wire(split=[at + 1]))
    assert any(chunk.endswith(b"\xc3") for chunk in cut.chunks)


async def test_framings() -> None:
    for framing, header in (
        ("chunked", "transfer-encoding"),
        ("length", "content-length"),
        ("eof", "connection"),
    ):
        for streamed in (True, False):
            async with ModelServer(Reply("hi", wire=Wire(framing=framing))) as server:  # type: ignore[arg-type]
                answer = await ask(server, stream=streamed)
            assert header in answer.headers
            assert answer.complete
            assert answer.done if streamed else answer.json["choices"]


async def test_an_error_inside_the_stream_and_as_http() -> None:
    reply = Reply("hi", StreamError("broken", code=503))
    async with ModelServer(reply) as server:
        streamed = await ask(server, stream=True)
        whole = await ask(server)
    error = {"error": {"code": 503, "message": "broken", "type": "server_error"}}
    assert streamed.status == 200
    assert streamed.events[-1] == error
    assert not streamed.done
    assert streamed.complete
    assert (whole.status, whole.json) == (503, error)


async def test_an_error_event_with_a_name_and_its_own_object() -> None:
    answer = await stream(StreamError(event="error", error={"code": "overloaded"}))
    assert answer.body == b'event: error\ndata: {"error":{"code":"overloaded"}}\n\n'


async def test_http_errors() -> None:
    script = [
        http_error(429, "slow down", code="rate_limit_exceeded", retry_after=7),
        http_error(500, code=500),
        html(502),
        html(),
        empty(500),
        http_json(200, [1]),
        http_error(599, extra={"metadata": {"raw": "x"}}),
    ]
    async with ModelServer(script) as server, Client(server) as client:
        limited, failed, page, odd, nothing, array, strange = [
            await client.chat(stream=True) for _ in script
        ]
    assert (limited.status, limited.headers["retry-after"]) == (429, "7")
    assert limited.json["error"]["code"] == "rate_limit_exceeded"
    assert (failed.status, failed.json["error"]["code"]) == (500, 500)
    assert (page.status, page.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert odd.status == 200
    assert odd.body.startswith(b"<!DOCTYPE")
    assert (nothing.status, nothing.body) == (500, b"")
    assert array.json == [1]
    assert strange.status == 599
    assert strange.json["error"]["metadata"] == {"raw": "x"}


async def test_the_other_kind_of_answer() -> None:
    script = [Reply("hi", wire=Wire(answer="json")), Reply("hi", wire=Wire(answer="sse"))]
    async with ModelServer(script) as server:
        as_json = await ask(server, stream=True)
        as_sse = await ask(server)
    assert as_json.headers["content-type"] == "application/json"
    assert as_json.json["choices"][0]["message"]["content"] == "hi"
    assert as_sse.done


async def test_stalls() -> None:
    async with ModelServer([head_only(), silence(), head_only()]) as server:
        for count, (fields, bytes_come) in enumerate(
            (({"stream": True}, True), ({"stream": True}, False), ({}, True)), 1
        ):
            client = Client(server)
            await client.__aenter__()
            await client.send(body=chat_body(**fields))
            if bytes_come:
                assert (await client.receive(head_only=True)).status == 200
            await server.wait_requests(count)
            await client.close()
            await server.wait_disconnected(count)
        assert server.answered == 0


async def test_bytes_in_place_of_http() -> None:
    async with ModelServer(Verbatim(b"SMTP ready\r\n")) as server, Client(server) as client:
        await client.send(body=chat_body())
        assert await client.reader.read() == b"SMTP ready\r\n"


async def test_headers_model_and_content_type_of_a_reply() -> None:
    answer = await stream(
        "hi", headers={"x-request-id": "abc"}, model="other", wire=Wire(content_type="text/plain")
    )
    assert answer.headers["x-request-id"] == "abc"
    assert answer.headers["content-type"] == "text/plain"
    assert answer.events[0]["model"] == "other"
