"""What weak models and real model servers do to a gateway, ready-made.

Each function is a row of what was observed with llama-server and vLLM and small models; they give a
reply, a rule, or a server to be started.
"""

from typing import Any, Literal

import msgspec

from bascule.testing.answer import Answer, HttpAnswer, Reply, http_error
from bascule.testing.dialect import LLAMA_SERVER, VLLM
from bascule.testing.request import Request
from bascule.testing.script import Rule, Script
from bascule.testing.server import ModelServer
from bascule.testing.steps import Call, Finish, Json, StreamError, Text

TextForm = Literal["bare", "fenced", "tag", "tool_calls", "python_tag"]


def llama_server(script: Script, **options: Any) -> ModelServer:
    """A server with llama-server's chunks, ids and errors; an unknown model is served anyway."""
    return ModelServer(script, dialect=LLAMA_SERVER, unknown_model="served", **options)


def vllm(script: Script, **options: Any) -> ModelServer:
    """A server with vLLM's chunks, ids and errors; an unknown model is a 404."""
    return ModelServer(script, dialect=VLLM, unknown_model="refused", **options)


def slow_start(script: Script, checks: int = 3, **options: Any) -> ModelServer:
    """A server that is still loading: so many `/health` checks get a 503, chat requests too."""
    return ModelServer(script, health_failures=checks, **options)


def required_ignored(text: str = "Let me think about which tool to use.") -> Reply:
    """Free text although a call was required."""
    return Reply(Text(text, chunks="words"), Finish("stop"))


def required_to_the_limit(text: str = "First I will look at the problem. " * 8) -> Reply:
    """Free text up to the token limit although a call was required."""
    return Reply(Text(text, chunks="words"), Finish("length"))


def named_choice_ignored(request: Request) -> Answer:
    """A rule: calls the first declared tool that is not the named one, or writes text."""
    choice: Any = request.json.get("tool_choice")
    named: Json = {} if isinstance(choice, str | None) else choice.get("function", {})
    for tool in request.tools:
        name = tool.get("function", {}).get("name")
        if name is not None and name != named.get("name"):
            return Reply(Call(name, {}))
    return required_ignored("I would rather not call that.")


def stop_with_calls(name: str, arguments: Json | str | None = None) -> Reply:
    """A call, as asked for by name, under `finish_reason: "stop"` (vLLM)."""
    return Reply(Call(name, {} if arguments is None else arguments), Finish("stop"))


def none_as_json_text(name: str, arguments: Json | None = None) -> Reply:
    """`tool_choice: "none"` obeyed to the letter: the call stands in the content as JSON."""
    return call_as_text(name, arguments, "bare")


def call_as_text(name: str, arguments: Json | None = None, form: TextForm = "bare") -> Reply:
    """A call that the server's parser did not see: it comes as plain text with `finish_reason: stop`."""
    return Reply(Text(written_call(name, arguments or {}, form), chunks=6), Finish("stop"))


def written_call(name: str, arguments: Json, form: TextForm = "bare") -> str:
    """How models write a call."""
    encoded = msgspec.json.encode({"name": name, "arguments": arguments}).decode()
    match form:
        case "bare":
            return encoded
        case "fenced":
            return f"```json\n{encoded}\n```"
        case "tag":
            return f"<tool_call>\n{encoded}\n</tool_call>"
        case "tool_calls":
            return f"[TOOL_CALLS][{encoded}]"
        case "python_tag":
            parameters = {"name": name, "parameters": arguments}
            return f"<|python_tag|>{msgspec.json.encode(parameters).decode()}"


def unparsable_output(text: str = '<tool_call>{"name": "get_weather", "argum') -> Reply:
    """Output that the server's tool parser cannot parse (llama-server).

    In a stream: text deltas, then an error object, no finish and no `[DONE]`; else HTTP 500.
    """
    return Reply(Text(text, chunks=4), StreamError("Failed to parse input at pos 0", code=500))


def unparsable_as_text(text: str = '<tool_call>{"name": "get_weather", "argum') -> Reply:
    """Output that the tool parser cannot parse, as plain text (vLLM)."""
    return Reply(Text(text, chunks=4), Finish("stop"))


def undeclared_call(name: str = "translate", arguments: Json | None = None) -> Reply:
    """A call of a tool that nobody declared."""
    return Reply(Call(name, arguments or {"text": "hello", "to": "fr"}))


def repeated_ids(*names: str, id: str = "0") -> Reply:  # noqa: A002 -- the field's name on the wire
    """Several calls, all under one id."""
    return Reply(*(Call(name, {"city": "Oslo"}, id=id) for name in names))


def error_as_200(body: bytes) -> HttpAnswer:
    """An error object as the body of an answer with status 200."""
    return HttpAnswer(200, body)


def parallel_calls_fail() -> HttpAnswer:
    """HTTP 500 where several calls were due."""
    return http_error(500, "Failed to parse tool call arguments as JSON", code=500)


def one_of_several(*calls: Call) -> Reply:
    """Several calls were due; only the first comes."""
    return Reply(*calls[:1])


def integer_code(status: int = 400, message: str = "'messages' is required") -> HttpAnswer:
    """An error whose `code` is a number."""
    return http_error(status, message, code=status)


def calls_again(name: str, arguments: Json | None = None, times: int = 1) -> Rule:
    """A rule: after each of the first so many results of a turn the same call comes again."""

    def rule(request: Request) -> Answer:
        results = _results_since_user(request)
        if results <= times:
            return Reply(Call(name, arguments or {}))
        return Reply("Here is what the tool said.")

    return rule


def _results_since_user(request: Request) -> int:
    results = 0
    for message in reversed(request.messages):
        if message.get("role") == "user":
            break
        results += message.get("role") == "tool"
    return results
