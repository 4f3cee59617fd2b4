"""What `include` asks for: without its value the data is not shown."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from bascule.protocols import capabilities, json
from bascule.protocols.errors import invalid

FILE_RESULTS: Final = "file_search_call.results"
WEB_RESULTS: Final = "web_search_call.results"
WEB_SOURCES: Final = "web_search_call.action.sources"
INPUT_IMAGES: Final = "message.input_image.image_url"
SCREENSHOTS: Final = "computer_call_output.output.image_url"
CODE_OUTPUTS: Final = "code_interpreter_call.outputs"
ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"

_Members = dict[str, Raw]
_Gate = Callable[[_Members, Collection[str]], bool]

_members = json.decoder(_Members)
_list = json.decoder(list[Raw])

_NULL: Final = Raw(b"null")
_EMPTY: Final = Raw(b"[]")


def check_includes(values: Sequence[str], param: str = "include") -> frozenset[str]:
    """Raises ApiError 400 that names a value which does not exist."""
    for i, value in enumerate(values):
        if value not in capabilities.INCLUDES:
            known = ", ".join(f"'{name}'" for name in capabilities.INCLUDES)
            raise invalid(
                f"Invalid value: '{value}'. Supported values are: {known}.",
                f"{param}[{i}]",
                "invalid_value",
            )
    return frozenset(values)


def gate(type_: str, data: bytes, include: Collection[str]) -> bytes:
    """An item of `type_` as a reader with this `include` may see it; what stays keeps its bytes."""
    rule = _GATES.get(type_)
    if rule is None:
        return data
    try:
        members = _members(data)
        changed = rule(members, include)
    except (msgspec.DecodeError, RecursionError):
        return data  # not built as its type says, so it holds nothing to be gated
    return json.encode(members) if changed else data


def _message(item: _Members, include: Collection[str]) -> bool:
    content = item.get("content")
    if content is None or not json.opens_with(content, b"["):
        return False
    parts = _list(content)
    changed = False
    for i, raw in enumerate(parts):
        part = _members(raw)
        kind = _text(part.get("type"))
        if kind == "output_text":
            hidden = LOGPROBS not in include and _replace(part, "logprobs", _EMPTY)
        else:
            hidden = (
                kind == "input_image"
                and INPUT_IMAGES not in include
                and _replace(part, "image_url", _NULL)
            )
        if hidden:
            parts[i] = Raw(json.encode(part))
            changed = True
    if changed:
        item["content"] = Raw(json.encode(parts))
    return changed


def _reasoning(item: _Members, include: Collection[str]) -> bool:
    hidden = ENCRYPTED_REASONING not in include
    return hidden and item.pop("encrypted_content", None) is not None


def _file_search(item: _Members, include: Collection[str]) -> bool:
    return FILE_RESULTS not in include and _replace(item, "results", _NULL)


def _web_search(item: _Members, include: Collection[str]) -> bool:
    changed = WEB_RESULTS not in include and item.pop("results", None) is not None
    if WEB_SOURCES not in include and "action" in item:
        action = _members(item["action"])
        if action.pop("sources", None) is not None:
            item["action"] = Raw(json.encode(action))
            changed = True
    return changed


def _code_interpreter(item: _Members, include: Collection[str]) -> bool:
    return CODE_OUTPUTS not in include and _replace(item, "outputs", _NULL)


def _computer_output(item: _Members, include: Collection[str]) -> bool:
    if SCREENSHOTS in include or "output" not in item:
        return False
    output = _members(item["output"])
    if not _replace(output, "image_url", _NULL):
        return False
    item["output"] = Raw(json.encode(output))
    return True


def _replace(members: _Members, name: str, value: Raw) -> bool:
    found = members.get(name)
    if found is None or bytes(found) == bytes(value):
        return False
    members[name] = value
    return True


def _text(raw: Raw | None) -> str:
    return "" if raw is None else bytes(raw).decode().strip('"')


_GATES: Final[dict[str, _Gate]] = {
    "message": _message,
    "reasoning": _reasoning,
    "file_search_call": _file_search,
    "web_search_call": _web_search,
    "code_interpreter_call": _code_interpreter,
    "computer_call_output": _computer_output,
}
