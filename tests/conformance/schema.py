"""Validation against the Open Responses document.

`check_event` and `check_response` hold an object to the document of 2026-04-24. Where Bascule speaks
OpenAI's dialect on purpose, `DIFFERENCES` says so, each with its reason; one that no test meets any more
is stale and fails a run of all tests.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

DOCUMENT = Path(__file__).parents[1] / "data" / "openresponses-openapi-2026-04-24.json"

Json = dict[str, Any]
Change = Callable[[Json], None]


@dataclass(frozen=True)
class Difference:
    """Where an answer may leave the document: `applies` finds the places, `change` widens the
    document's schemas so that they pass."""

    name: str
    reason: str
    applies: Callable[[Json], bool]
    change: Change


SEEN: set[str] = set()
"""Names of the differences that the tests of this run have met."""


def check_event(event: Json) -> None:
    """One stream event. Raises AssertionError that names the place at fault."""
    name = event.get("type")
    assert isinstance(name, str), f"an event without a type: {event}"
    _check(event, lambda schemas: _event_schema(schemas, name))


def check_response(response: Json) -> None:
    """A response object: the body of a whole answer, or what an event carries."""
    _check(response, lambda _: "ResponseResource")
    missing = _RESPONSE_KEYS - response.keys()
    assert not missing, f"the response has no {sorted(missing)}"
    _check_status(response)


def stale_differences() -> list[str]:
    """A line for each difference that nothing has met."""
    return [
        f"the difference '{difference.name}' from Open Responses was not met by any test"
        for difference in DIFFERENCES
        if difference.name not in SEEN
    ]


# --- what a response says about itself

_RESPONSE_KEYS = frozenset(
    [
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "background",
        "error",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "model",
        "output",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "frequency_penalty",
        "presence_penalty",
        "usage",
        "user",
        "metadata",
    ]
)


def _check_status(response: Json) -> None:
    status = response["status"]
    assert status in ("in_progress", "completed", "incomplete", "failed"), status
    assert (response["error"] is not None) == (status == "failed"), response["error"]
    details = response["incomplete_details"]
    assert (details is not None) == (status == "incomplete"), details
    assert (response["completed_at"] is not None) == (status == "completed"), response[
        "completed_at"
    ]


# --- validation


def _check(value: Json, name_of: Callable[[Json], str | None]) -> None:
    fault = _fault(value, frozenset(), name_of)
    if fault is None:
        return
    names = frozenset(d.name for d in DIFFERENCES if d.applies(value))
    if names:
        fault = _fault(value, names, name_of)
    assert fault is None, fault
    SEEN.update(names)


def _fault(
    value: Json, differences: frozenset[str], name_of: Callable[[Json], str | None]
) -> str | None:
    name = name_of(_schemas(differences))
    if name is None:
        return f"the document has no event {value.get('type')!r}"
    error = best_match(_validator(differences, name).iter_errors(value))
    if error is None:
        return None
    return f"{value.get('type', 'response')}: {error.json_path}: {error.message[:500]}"


@cache
def _schemas(differences: frozenset[str]) -> Json:
    schemas: Json = msgspec.json.decode(DOCUMENT.read_bytes())["components"]["schemas"]
    for difference in DIFFERENCES:
        if difference.name in differences:
            difference.change(schemas)
    return schemas


@cache
def _validator(differences: frozenset[str], name: str) -> Draft202012Validator:
    components = {"schemas": _schemas(differences)}
    root = {"$ref": f"#/components/schemas/{name}", "components": components}
    return Draft202012Validator(root)


def _event_schema(schemas: Json, type_: str) -> str | None:
    for name, schema in schemas.items():
        if name.endswith("StreamingEvent") and type_ in _enum(schema["properties"]["type"]):
            return name
    return None


def _enum(schema: Json) -> list[str]:
    return schema.get("enum", [])


# --- where the places are


def _responses(value: Json) -> Iterator[Json]:
    if value.get("object") == "response":
        yield value
    elif isinstance(value.get("response"), dict):
        yield value["response"]


def _items(value: Json) -> Iterator[Json]:
    if isinstance(value.get("item"), dict):
        yield value["item"]
    for response in _responses(value):
        yield from response["output"]


def _has_item(type_: str) -> Callable[[Json], bool]:
    return lambda value: any(item["type"] == type_ for item in _items(value))


def _has_tool(type_: str) -> Callable[[Json], bool]:
    return lambda value: any(
        tool["type"] == type_ for response in _responses(value) for tool in response["tools"]
    )


def _chooses(type_: str) -> Callable[[Json], bool]:
    def applies(value: Json) -> bool:
        for response in _responses(value):
            choice = response["tool_choice"]
            if isinstance(choice, dict):
                named = [choice, *choice.get("tools", ())]
                if any(ref["type"] == type_ for ref in named):
                    return True
        return False

    return applies


def _is_event(*types: str) -> Callable[[Json], bool]:
    return lambda value: value.get("type") in types


# --- how the document is widened


def _object(type_: str, *, optional: dict[str, Json] | None = None, **required: Json) -> Json:
    """The schema of an object with exactly these members."""
    members = {"type": {"enum": [type_]}, **required}
    return {
        "type": "object",
        "properties": {**members, **(optional or {})},
        "required": list(members),
        "additionalProperties": False,
    }


def _members(**required: Json) -> Json:
    """The schema of an object without a type."""
    return {
        "type": "object",
        "properties": required,
        "required": list(required),
        "additionalProperties": False,
    }


_STATUS: Json = {"enum": ["in_progress", "completed", "incomplete"]}
_STRING: Json = {"type": "string"}
_INTEGER: Json = {"type": "integer"}
_PLACE = {"sequence_number": _INTEGER, "item_id": _STRING, "output_index": _INTEGER}


def _new_event(type_: str, **members: Json) -> Change:
    def change(schemas: Json) -> None:
        # As the document has it on the deltas that it knows.
        optional = {"obfuscation": _STRING} if type_.endswith(".delta") else None
        schemas[f"{type_}StreamingEvent"] = _object(type_, optional=optional, **_PLACE, **members)

    return change


def _placed_event(type_: str, **members: Json) -> Change:
    """One that names the item's place only, and a command's."""

    def change(schemas: Json) -> None:
        optional = {"obfuscation": _STRING} if type_.endswith(".delta") else None
        place = {"sequence_number": _INTEGER, "output_index": _INTEGER, "command_index": _INTEGER}
        schemas[f"{type_}StreamingEvent"] = _object(type_, optional=optional, **place, **members)

    return change


def _all(*changes: Change) -> Change:
    def change(schemas: Json) -> None:
        for step in changes:
            step(schemas)

    return change


def _one_more(name: str, schema: Json) -> Change:
    """One more alternative of a schema that is a `oneOf`."""

    def change(schemas: Json) -> None:
        schemas[name]["oneOf"].append(schema)

    return change


_CUSTOM_CALL = _object(
    "custom_tool_call",
    id=_STRING,
    status={"enum": ["in_progress", "completed", "incomplete"]},
    call_id=_STRING,
    name=_STRING,
    input=_STRING,
    optional={"namespace": _STRING},
)
_CUSTOM_TOOL: Json = {
    "type": "object",
    "properties": {"type": {"enum": ["custom"]}, "name": _STRING},
    "required": ["type", "name"],
}
_CUSTOM_CHOICE = _object("custom", name=_STRING)


_OTHER_TYPE: Json = {"type": "string", "not": {"enum": ["function", "custom", "allowed_tools"]}}
_OTHER_TOOL: Json = {"type": "object", "properties": {"type": _OTHER_TYPE}, "required": ["type"]}


def _choose_other(schemas: Json) -> None:
    choice = schemas["ResponseResource"]["properties"]["tool_choice"]["oneOf"]
    choice.append(_OTHER_TOOL)
    schemas["AllowedToolChoice"]["properties"]["tools"]["items"]["oneOf"].append(_OTHER_TOOL)


def _has_other_tool(value: Json) -> bool:
    known = ("function", "custom")
    return any(t["type"] not in known for r in _responses(value) for t in r["tools"])


def _chooses_other(value: Json) -> bool:
    for response in _responses(value):
        choice = response["tool_choice"]
        if isinstance(choice, dict):
            refs = choice.get("tools", (choice,))
            if any(ref["type"] not in ("function", "custom") for ref in refs):
                return True
    return False


def _choose_custom(schemas: Json) -> None:
    schemas["ResponseResource"]["properties"]["tool_choice"]["oneOf"].append(_CUSTOM_CHOICE)
    schemas["AllowedToolChoice"]["properties"]["tools"]["items"]["oneOf"].append(_CUSTOM_CHOICE)


def _echo_schema(schemas: Json) -> None:
    schemas["JsonSchemaResponseFormat"]["properties"]["schema"] = {"type": "object"}


def _more_efforts(schemas: Json) -> None:
    schemas["ReasoningEffortEnum"]["enum"] += ["minimal", "max"]


def _echoes_schema(value: Json) -> bool:
    return any(r["text"]["format"]["type"] == "json_schema" for r in _responses(value))


def _has_effort(value: Json) -> bool:
    efforts = [(r["reasoning"] or {}).get("effort") for r in _responses(value)]
    return any(effort in ("minimal", "max") for effort in efforts)


_BUILT_IN: dict[str, Json] = {
    "shell_call": _object(
        "shell_call",
        id=_STRING,
        status=_STATUS,
        call_id=_STRING,
        action=_members(
            commands={"type": "array", "items": _STRING},
            max_output_length={"type": ["integer", "null"]},
            timeout_ms={"type": ["integer", "null"]},
        ),
        optional={"environment": _object("local")},
    ),
    "local_shell_call": _object(
        "local_shell_call",
        id=_STRING,
        status=_STATUS,
        call_id=_STRING,
        action=_object(
            "exec",
            command={"type": "array", "items": _STRING},
            env={"type": "object", "additionalProperties": _STRING},
            optional={"timeout_ms": _INTEGER, "user": _STRING, "working_directory": _STRING},
        ),
    ),
    "apply_patch_call": _object(
        "apply_patch_call",
        id=_STRING,
        status=_STATUS,
        call_id=_STRING,
        operation={
            "oneOf": [
                _object("create_file", path=_STRING, diff=_STRING),
                _object("update_file", path=_STRING, diff=_STRING),
                _object("delete_file", path=_STRING),
            ]
        },
    ),
    "computer_call": _object(
        "computer_call",
        id=_STRING,
        status=_STATUS,
        call_id=_STRING,
        pending_safety_checks={"type": "array", "maxItems": 0},
        optional={"action": {"type": "object"}, "actions": {"type": "array"}},
    ),
}


def _any(*found: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda value: any(applies(value) for applies in found)


DIFFERENCES = [
    Difference(
        "events of built-in tools",
        "shell commands and diffs stream under OpenAI's names; the former name no item",
        _is_event(
            *(f"response.shell_call_command.{step}" for step in ("added", "delta", "done")),
            *(f"response.apply_patch_call_operation_diff.{step}" for step in ("delta", "done")),
        ),
        _all(
            _placed_event("response.shell_call_command.added", command=_STRING),
            _placed_event("response.shell_call_command.delta", delta=_STRING),
            _placed_event("response.shell_call_command.done", command=_STRING),
            _new_event("response.apply_patch_call_operation_diff.delta", delta=_STRING),
            _new_event("response.apply_patch_call_operation_diff.done", diff=_STRING),
        ),
    ),
    Difference(
        "calls of built-in tools",
        "calls of the tools that clients know by their type are items of OpenAI's",
        _any(*map(_has_item, _BUILT_IN)),
        _all(*(_one_more("ItemField", schema) for schema in _BUILT_IN.values())),
    ),
    Difference(
        "reasoning text events",
        "raw reasoning streams under OpenAI's names, response.reasoning_text.delta and .done",
        _is_event("response.reasoning_text.delta", "response.reasoning_text.done"),
        _all(
            _new_event("response.reasoning_text.delta", content_index=_INTEGER, delta=_STRING),
            _new_event("response.reasoning_text.done", content_index=_INTEGER, text=_STRING),
        ),
    ),
    Difference(
        "custom tool events",
        "custom tools are OpenAI's; the document knows function tools only",
        _is_event("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"),
        _all(
            _new_event("response.custom_tool_call_input.delta", delta=_STRING),
            _new_event("response.custom_tool_call_input.done", input=_STRING),
        ),
    ),
    Difference(
        "custom tool call items",
        "the call of a custom tool is an item type of OpenAI's",
        _has_item("custom_tool_call"),
        _one_more("ItemField", _CUSTOM_CALL),
    ),
    Difference(
        "custom tools in the echo",
        "declared custom tools are shown as they were declared",
        _has_tool("custom"),
        _one_more("Tool", _CUSTOM_TOOL),
    ),
    Difference(
        "other tools in the echo",
        "tools of all types are shown as they were declared; the document knows functions only",
        _has_other_tool,
        _one_more("Tool", _OTHER_TOOL),
    ),
    Difference(
        "other tools in tool_choice",
        "a choice may name a tool of any type, and is echoed as it came",
        _chooses_other,
        _choose_other,
    ),
    Difference(
        "custom tools in tool_choice",
        "a choice may name a custom tool, and is echoed as it came",
        _chooses("custom"),
        _choose_custom,
    ),
    Difference(
        "schema in the echo of text.format",
        "the document's generated type of the echoed schema is null; a client wants its schema back",
        _echoes_schema,
        _echo_schema,
    ),
    Difference(
        "efforts minimal and max",
        "OpenAI's list of efforts is longer; the request is echoed",
        _has_effort,
        _more_efforts,
    ),
]
