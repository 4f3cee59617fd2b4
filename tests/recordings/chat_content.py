"""What a recorded Chat answer says, read without Bascule's decoder."""

from dataclasses import dataclass, field
from typing import Any

from tests.recordings.files import Recording

Json = dict[str, Any]


@dataclass
class Said:
    """Text, reasoning and calls of one answer, in the order in which each came."""

    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    annotations: int = 0
    finish: str | None = None
    usage: Json | None = None


def read(recording: Recording) -> Said:
    """Fold a recording, stream or whole."""
    said = Said()
    calls: dict[object, Json] = {}
    chunks = recording.decoded_events if recording.streamed else [recording.body]
    for chunk in chunks:
        said.usage = chunk.get("usage") or said.usage
        for choice in (chunk.get("choices") or [])[:1]:
            said.finish = choice.get("finish_reason") or said.finish
            _add(said, calls, choice.get("delta") or choice.get("message") or {})
    for call in calls.values():
        said.calls.append((call["name"], call["arguments"]))
        said.call_ids.append(call["id"])
    return said


def _add(said: Said, calls: dict[object, Json], delta: Json) -> None:
    content = delta.get("content") or ""
    if isinstance(content, str):
        said.text += content
    else:
        for part in content:
            said.text += part.get("text") or ""
            for thought in part.get("thinking") or ():
                said.reasoning += thought["text"]
    said.refusal += delta.get("refusal") or ""
    said.reasoning += _reasoning(delta)
    said.annotations += len(delta.get("annotations") or ())
    for call in delta.get("tool_calls") or ():
        _add_call(calls, call)


def _reasoning(delta: Json) -> str:
    for key in ("reasoning_content", "reasoning"):
        if delta.get(key):
            return delta[key]
    details = delta.get("reasoning_details") or ()
    return "".join(d.get("text") or d.get("summary") or "" for d in details)


def _add_call(calls: dict[object, Json], call: Json) -> None:
    key = call.get("index")
    if key is None:
        key = ("whole", len(calls))
    function = call.get("function") or {}
    entry = calls.setdefault(key, {"id": "", "name": "", "arguments": ""})
    entry["id"] = entry["id"] or call.get("id") or ""
    entry["name"] = entry["name"] or function.get("name") or ""
    entry["arguments"] += function.get("arguments") or ""
