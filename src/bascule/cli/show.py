"""One turn with a tool, as a client makes it over plain HTTP, told in readable lines."""

import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bascule.protocols.sse import SseReader
from bascule.upstreams.client import Headers, Timeouts, UpstreamClient, UpstreamRequest
from bascule.upstreams.fetch import fetch, stream

QUESTION: Final = "List the files in `docs` and in `scripts`."
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "name": "list_files",
    "description": "List the files in a folder of this project.",
    "parameters": {
        "type": "object",
        "properties": {"folder": {"type": "string", "description": "Relative path, such as docs"}},
        "required": ["folder"],
        "additionalProperties": False,
    },
    "strict": True,
}
_MOST_REQUESTS: Final = 6
_TIMEOUTS: Final = Timeouts(connect=5, first_byte=300, idle=300)


class ShowFailed(Exception):
    """The turn did not go as it should; says why."""


@dataclass(slots=True)
class Client:
    """A client of the gateway at `url`; without a key it sends none."""

    http: UpstreamClient
    url: str
    key: str | None = None

    def request(self, path: str, body: Any = None) -> UpstreamRequest:
        headers: Headers = [(b"content-type", b"application/json")]
        if self.key is not None:
            headers = [*headers, (b"authorization", b"Bearer " + self.key.encode())]
        return UpstreamRequest(
            url=f"{self.url}/v1/{path}",
            method="GET" if body is None else "POST",
            headers=headers,
            body=b"" if body is None else msgspec.json.encode(body),
            timeouts=_TIMEOUTS,
        )


@dataclass(slots=True)
class Round:
    """What one request brought."""

    response: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    text: str = ""


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _row(label: str, text: str) -> None:
    say(f"   {label:<9}{text}")


async def choose_model(client: Client) -> str:
    """The first model that can be talked to. Raises ShowFailed."""
    answer = await fetch(client.http, client.request("models"))
    if answer.status != 200:
        raise ShowFailed(f"the gateway lists no models: {answer.status} {answer.body.decode()}")
    names: list[str] = [model["id"] for model in msgspec.json.decode(answer.body)["data"]]
    chat = [name for name in names if "embed" not in name.lower()]
    if not chat:
        raise ShowFailed("the model server lists no model to talk to; say --model NAME")
    return chat[0]


async def show_turn(client: Client, model: str) -> str:
    """Ask, run the calls, continue until there is an answer. Its response id. Raises ShowFailed."""
    began = time.perf_counter()
    responses: list[dict[str, Any]] = []
    inputs: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    say("1. The client asks, and offers its function list_files.")
    _row("user", QUESTION)
    while True:
        round_ = await _request(client, model, inputs, responses)
        responses.append(round_.response)
        if not round_.calls:
            break
        if len(responses) == _MOST_REQUESTS:
            raise ShowFailed(f"the model still calls the tool after {_MOST_REQUESTS} requests")
        say(f"\n{len(responses) + 1}. The client runs what was called, and continues the response.")
        inputs = [_run(call) for call in round_.calls]
    if len(responses) == 1:
        raise ShowFailed("the model answered without calling the tool")
    if not round_.text.strip():
        raise ShowFailed("the model gave no answer")
    _sum_up(responses, time.perf_counter() - began)
    return str(responses[-1]["id"])


def _sum_up(responses: list[dict[str, Any]], seconds: float) -> None:
    usage: list[dict[str, int]] = [response.get("usage") or {} for response in responses]
    read = sum(u.get("input_tokens", 0) for u in usage)
    written = sum(u.get("output_tokens", 0) for u in usage)
    say(
        f"\nThe turn took {len(responses)} requests and {seconds * 1000:.0f} ms: "
        f"{read} tokens in, {written} out."
    )


async def _request(
    client: Client, model: str, inputs: list[dict[str, Any]], earlier: list[dict[str, Any]]
) -> Round:
    body: dict[str, Any] = {"model": model, "input": inputs, "tools": [TOOL], "stream": True}
    if earlier:
        body["previous_response_id"] = earlier[-1]["id"]
    began = time.perf_counter()
    round_, printer = Round(), _Printer()
    async for event in _events(client, client.request("responses", body)):
        _take(event, round_, printer)
    printer.end()
    _row("response", f"{round_.response.get('id')}")
    if round_.response.get("status") != "completed":
        error: Any = round_.response.get("error") or round_.response.get("incomplete_details")
        raise ShowFailed(f"the response is {round_.response.get('status', 'cut off')}: {error}")
    usage: dict[str, int] = round_.response.get("usage") or {}
    took = (time.perf_counter() - began) * 1000
    tokens = f"{usage.get('input_tokens', 0)} tokens in, {usage.get('output_tokens', 0)} out"
    _row("", f"completed, {tokens}, {took:.0f} ms")
    return round_


async def _events(client: Client, request: UpstreamRequest) -> AsyncGenerator[dict[str, Any]]:
    async with stream(client.http, request) as answer:
        if answer.status != 200:
            body = b"".join([piece async for piece in answer])
            raise ShowFailed(f"the gateway answered {answer.status}: {_message(body)}")
        reader = SseReader()
        async for piece in answer:
            for _, data in reader.feed(piece):
                if data != b"[DONE]":
                    yield msgspec.json.decode(data)


def _message(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:500].decode(errors="replace")


def _take(event: dict[str, Any], round_: Round, printer: "_Printer") -> None:
    match event["type"]:
        case "response.output_text.delta":
            round_.text += event["delta"]
            printer.write(event["delta"])
        case "response.output_item.done" if event["item"]["type"] == "function_call":
            call = event["item"]
            round_.calls.append(call)
            printer.end()
            _row("call", f"{call['name']} {call['arguments']}  ({call['call_id']})")
        case "response.completed" | "response.incomplete" | "response.failed":
            round_.response = event["response"]
        case _:
            pass


class _Printer:
    """Writes text as it comes, its lines below each other."""

    def __init__(self) -> None:
        self._open = False

    def write(self, delta: str) -> None:
        if not self._open:
            sys.stdout.write(f"   {'answer':<9}")
            self._open = True
        sys.stdout.write(delta.replace("\n", "\n" + " " * 12))
        sys.stdout.flush()

    def end(self) -> None:
        if self._open:
            say()
            self._open = False


def _run(call: dict[str, Any]) -> dict[str, Any]:
    """Execute a call: what a client's own function does."""
    output = _outcome(call)
    _row("output", f"{output}  ({call['call_id']})")
    return {"type": "function_call_output", "call_id": call["call_id"], "output": output}


def _outcome(call: dict[str, Any]) -> str:
    if call["name"] != TOOL["name"]:
        return f"error: there is no function {call['name']}"
    try:
        folder = str(msgspec.json.decode(call["arguments"])["folder"])
        return list_files(Path.cwd(), folder)
    except (msgspec.DecodeError, KeyError, TypeError):
        return "error: the arguments must be an object with `folder`"
    except (OSError, ValueError) as e:
        return f"error: {e}"


def list_files(root: Path, folder: str) -> str:
    """The names in a folder below `root`. Raises ValueError outside of it, OSError."""
    path = (root / folder).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError(f"{folder} is not in this project")
    return ", ".join(sorted(entry.name for entry in path.iterdir())[:50]) or "nothing"
