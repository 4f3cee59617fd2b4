"""A stream put together again, by what the chunks say and nothing else."""

from typing import Any

TEXTS = ("content", "refusal", "reasoning", "reasoning_content", "reasoning_text")


def fold(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Message, finish reason, usage and token logprobs of a stream."""
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, str]] = {}
    finish, usage = None, None
    tokens: list[Any] = []
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            finish = choice.get("finish_reason", None) or finish
            tokens += (choice.get("logprobs") or {}).get("content") or []
            _fold_delta(choice["delta"], message, calls)
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"message": message, "finish": finish, "usage": usage, "tokens": tokens}


def _fold_delta(
    delta: dict[str, Any], message: dict[str, Any], calls: dict[int, dict[str, str]]
) -> None:
    for key in TEXTS:
        if delta.get(key):
            message[key] = message.get(key, "") + delta[key]
    if delta.get("reasoning_details"):
        message.setdefault("reasoning_details", []).extend(delta["reasoning_details"])
    for entry in delta.get("tool_calls") or ():
        call = calls.setdefault(entry["index"], {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or entry.get("id") or ""
        name = entry["function"].get("name") or ""
        call["name"] += name if name != call["name"] else ""
        call["arguments"] += entry["function"].get("arguments") or ""


def of_whole(answer: dict[str, Any]) -> dict[str, Any]:
    """The same view of a whole answer."""
    choice = answer["choices"][0]
    message = {
        key: text
        for key, text in choice["message"].items()
        if text and key not in ("role", "tool_calls")
    }
    calls = choice["message"].get("tool_calls")
    if calls:
        message["tool_calls"] = [{"id": call.get("id", ""), **call["function"]} for call in calls]
    tokens = (choice["logprobs"] or {}).get("content") or []
    return {
        "message": message,
        "finish": choice["finish_reason"],
        "usage": answer.get("usage"),
        "tokens": tokens,
    }
