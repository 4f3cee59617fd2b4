"""The demo model's rule: one request in, one reply out."""

from collections.abc import Iterator
from typing import Any

import msgspec

from bascule.testing.answer import Answer, Reply, http_error
from bascule.testing.demo.conversation import Conversation
from bascule.testing.demo.plan import MOST_TEXT, PlannedCall, plan
from bascule.testing.demo.schema.build import Builder, UnsatisfiableError
from bascule.testing.demo.schema.resolve import Schema
from bascule.testing.demo.suggest import RequestSuggestions
from bascule.testing.demo.talk import answer_text
from bascule.testing.request import Request
from bascule.testing.steps import Call, Finish, Json, Reasoning, Step, Text, Usage


def answer(request: Request) -> Answer:
    """The demo model's answer. It depends on the request and on nothing else."""
    talk = Conversation(request)
    missing = _undeclared(talk)
    if missing is not None:
        return http_error(
            400, f"tool_choice names `{missing}`, which is not in tools", param="tool_choice"
        )
    calls = plan(talk)
    text = "" if calls else _final_text(talk)
    steps: list[Step] = []
    reasoning = _reasoning(talk, calls) if talk.reasons else ""
    if reasoning:
        steps.append(Reasoning(reasoning, chunks="words"))
    steps += [Call(call.name, call.arguments, split=3) for call in calls]
    shown, finish = _within(text, talk.limit)
    if shown:
        steps.append(Text(shown, chunks="words"))
    if finish is not None:
        steps.append(Finish(finish))
    written = sum(_count(call) for call in calls) + len(shown.split()) + len(reasoning.split())
    usage = Usage(
        prompt=talk.prompt_words,
        completion=written,
        reasoning=len(reasoning.split()) if talk.reasons else None,
    )
    if request.stream and not _wants_usage(request):
        return Reply(*steps)
    return Reply(*_with_finish(steps, calls), usage)


def _with_finish(steps: list[Step], calls: list[PlannedCall]) -> Iterator[Step]:
    yield from steps
    if not any(isinstance(step, Finish) for step in steps):
        yield Finish("tool_calls" if calls else "stop")


def _wants_usage(request: Request) -> bool:
    options: Json = request.json.get("stream_options") or {}
    return options.get("include_usage") is True


def _undeclared(talk: Conversation) -> str | None:
    if talk.choice.mode != "required" or talk.choice.names is None:
        return None
    declared = {tool.name for tool in talk.tools}
    return next((name for name in sorted(talk.choice.names) if name not in declared), None)


def _count(call: PlannedCall) -> int:
    return 1 + len(call.arguments)


def _within(text: str, limit: int | None) -> tuple[str, str | None]:
    """The text cut to so many words, and the finish reason if it was cut."""
    words = text.split(" ")
    if limit is None or len(words) <= limit:
        return text, None
    return " ".join(words[: max(0, limit)]), "length"


def _reasoning(talk: Conversation, calls: list[PlannedCall]) -> str:
    if calls:
        names = " and ".join(dict.fromkeys(call.name for call in calls))
        return f"The request matches {names}, so I will call it."
    if talk.results:
        return "The tools have answered, so I can report what they said."
    return "No tool is needed for this, so I will answer myself."


def _final_text(talk: Conversation) -> str:
    match talk.format.get("type"):
        case "json_object":
            return _json({"answer": answer_text(talk), "model": "bascule-demo"})
        case "json_schema":
            wanted: Json = talk.format.get("json_schema") or {}
            return _json(_structured(wanted.get("schema", True), talk))
        case _:
            return answer_text(talk)


def _structured(schema: Schema, talk: Conversation) -> Any:
    known = " ".join([talk.request, *(result.text for result in talk.results)])[-MOST_TEXT:]
    try:
        return Builder(schema, RequestSuggestions(known, known)).build(schema)
    except UnsatisfiableError:
        return {}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
