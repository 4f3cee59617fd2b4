"""A cheap Chat server that streams one call with 200 fragments of arguments, in one burst.

    python bench/tool_upstream.py --port 9101

The model's name is that of the function which is called: `call:crm__find`; the arguments are
`{"input": " w0000 w0001 ..."}`.
"""

import argparse
import asyncio
import json
import re

import uvloop

MODEL = re.compile(rb'"model":\s*"call:([\w-]+)"')
LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
COUNT = 200


def sse(value):
    data = b"data: %s\n\n" % json.dumps(value, separators=(",", ":")).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1_750_000_000}
    return sse({**head, "model": "fake", "choices": [choice]})


def fragment(text):
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]})


def answer(name):
    call = {"index": 0, "id": "call_fake0001", "type": "function"}
    events = [chunk({"role": "assistant", "content": None})]
    call["function"] = {"name": name, "arguments": ""}
    events += [chunk({"tool_calls": [call]}), fragment('{"input": "')]
    events += [fragment(f" w{i:04d}") for i in range(COUNT - 2)]
    events += [fragment('"}'), chunk({}, "tool_calls")]
    done = b"data: [DONE]\n\n"
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head + b"".join(events) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done)


ANSWERS = {}


class Server(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        head, found, body = self.data.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not found or len(body) < (int(length[1]) if length else 0):
            return
        self.data = b""
        model = MODEL.search(body)
        if model is None:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            return
        if model[1] not in ANSWERS:
            ANSWERS[model[1]] = answer(model[1].decode())
        self.transport.write(ANSWERS[model[1]])


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", args.port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
