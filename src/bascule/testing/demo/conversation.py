"""A chat request, read as a conversation."""

from typing import Any, cast

import msgspec

from bascule.testing.request import Request
from bascule.testing.steps import Json


class Tool(msgspec.Struct, frozen=True):
    """A declared function."""

    name: str
    description: str
    parameters: Json | bool


class Result(msgspec.Struct, frozen=True):
    """The result of a call that was made for the last request of the user."""

    name: str
    arguments: str
    text: str


class Choice(msgspec.Struct, frozen=True):
    """What `tool_choice` says: may, must, must not; and among which tools."""

    mode: str = "auto"
    names: frozenset[str] | None = None


class Conversation:
    """What the demo model looks at. The last user request is the last user message with a text."""

    def __init__(self, request: Request) -> None:
        self._body = request.json
        self._messages = request.messages
        start = self._start()
        self.request = text_of(self._messages[start].get("content")) if start >= 0 else ""
        self.earlier = [
            text_of(message.get("content"))
            for message in self._messages[: max(start, 0)]
            if message.get("role") == "user"
        ]
        since = self._messages[start + 1 :]
        self.results = _results(since)
        self.images = sum(
            _count_images(message.get("content")) for message in self._messages[max(start, 0) :]
        )
        self.tools = [_tool(tool["function"]) for tool in request.tools if "function" in tool]
        self.choice = _choice(self._body.get("tool_choice"))
        self.parallel = self._body.get("parallel_tool_calls") is not False
        self.format: Json = self._body.get("response_format") or {}
        effort: Any = self._body.get("reasoning_effort")
        self.reasons = effort not in (None, "none")

    @property
    def limit(self) -> int | None:
        """The number of words that the answer may have."""
        limit: Any = self._body.get("max_completion_tokens") or self._body.get("max_tokens")
        return limit if isinstance(limit, int) else None

    @property
    def prompt_words(self) -> int:
        """The words of all messages and declarations."""
        said = sum(
            len(text_of(message.get("content")).split())
            + len(msgspec.json.encode(message.get("tool_calls") or []).split())
            for message in self._messages
        )
        return said + sum(len(tool.description.split()) + 1 for tool in self.tools)

    def _start(self) -> int:
        for at in range(len(self._messages) - 1, -1, -1):
            message = self._messages[at]
            if message.get("role") != "user":
                continue
            carries_a_result = at > 0 and self._messages[at - 1].get("role") == "tool"
            if carries_a_result and not text_of(message.get("content")).strip():
                continue
            return at
        return -1

    def usable(self) -> list[Tool]:
        """The declared tools that the choice leaves."""
        names = self.choice.names
        if self.choice.mode == "none":
            return []
        return [tool for tool in self.tools if names is None or tool.name in names]


def text_of(content: object) -> str:
    """The text of a message's content, whatever its form."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts: list[str] = []
    for part in cast("list[Any]", content):
        if isinstance(part, dict):
            text: Any = cast("Json", part).get("text")
            if isinstance(text, str):
                texts.append(text)
    return "\n".join(texts)


def _count_images(content: object) -> int:
    if not isinstance(content, list):
        return 0
    parts = cast("list[Json]", content)
    return sum(part.get("type") == "image_url" for part in parts)


def _tool(function: Json) -> Tool:
    parameters: Any = function.get("parameters")
    return Tool(
        function["name"],
        function.get("description") or "",
        cast("Json | bool", parameters) if isinstance(parameters, dict | bool) else {},
    )


def _results(messages: list[Json]) -> list[Result]:
    calls: dict[str, Json] = {}
    results: list[Result] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            calls[call.get("id", "")] = call.get("function") or {}
        if message.get("role") == "tool":
            function = calls.get(message.get("tool_call_id", ""), {})
            text = text_of(message.get("content"))
            results.append(Result(function.get("name", ""), function.get("arguments", ""), text))
    return results


def _choice(choice: Any) -> Choice:
    if not isinstance(choice, dict):
        return Choice(choice or "auto")
    fields = cast("Json", choice)
    if fields.get("type") == "allowed_tools":
        allowed: Json = fields.get("allowed_tools") or fields
        names = [_name(tool) for tool in allowed.get("tools") or ()]
        return Choice(allowed.get("mode", "auto"), frozenset(names))
    return Choice("required", frozenset([_name(fields)]))


def _name(reference: Json) -> str:
    function: Json = reference.get("function") or reference.get("custom") or reference
    return str(function.get("name", ""))
