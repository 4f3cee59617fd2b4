"""The shapes in the OpenAPI document: from the code's own structs where there are some.

Items, tools and events are open: their type is certain, the rest is what the protocol says.
"""

from typing import Any, Final, get_args

import msgspec

from bascule.protocols.responses.door import honoured_fields
from bascule.protocols.responses.events import ErrorBody
from bascule.protocols.responses.request import ReasoningOptions
from bascule.protocols.responses.response import ResponseError, ResponseStatus

Json = dict[str, Any]

_PREFIX: Final = "#/components/schemas/"


def ref(name: str) -> Json:
    """A schema by its name in the document."""
    return {"$ref": f"{_PREFIX}{name}"}


def _object(required: Json, **optional: Any) -> Json:
    """An object with these members; others may stand beside them."""
    shown = {"type": "object", "properties": {**required, **optional}}
    return {**shown, "required": list(required)} if required else shown


def _null_or(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


STRING: Final[Json] = {"type": "string"}
INTEGER: Final[Json] = {"type": "integer"}
NUMBER: Final[Json] = {"type": "number"}
BOOLEAN: Final[Json] = {"type": "boolean"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_OPEN: Final[Json] = {"type": "object"}

_METADATA: Final[Json] = {
    "type": "object",
    "maxProperties": 16,
    "propertyNames": {"maxLength": 64},
    "additionalProperties": {"type": "string", "maxLength": 512},
}

_REQUEST: Final[dict[str, Json]] = {
    "model": {"type": "string", "minLength": 1, "description": "A model's name, see /v1/models."},
    "input": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": _OPEN}],
        "description": "A text, or items: messages, calls, outputs, reasoning.",
    },
    "instructions": STRING,
    "previous_response_id": STRING,
    "conversation": {"anyOf": [STRING, _object({"id": STRING})]},
    "store": {**BOOLEAN, "default": True},
    "stream": {**BOOLEAN, "default": False},
    "include": {"type": "array", "items": STRING},
    "tools": {"type": "array", "items": _object({"type": STRING})},
    "tool_choice": {
        "anyOf": [
            {"type": "string", "enum": ["auto", "none", "required"]},
            _object({"type": STRING}),
        ]
    },
    "parallel_tool_calls": BOOLEAN,
    "max_output_tokens": {"type": "integer", "minimum": 16},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "text": ref("TextOptions"),
    "reasoning": ref("ReasoningOptions"),
    "metadata": _METADATA,
}
"""What is said of request fields; a field that is honoured and not here is shown without a shape."""

# By hand: msgspec makes no schema of a struct that keeps a member as its bytes.
_TEXT: Final[Json] = _object(
    {},
    format=_null_or(
        {
            "anyOf": [
                _object({"type": {"enum": ["text", "json_object"]}}),
                _object(
                    {"type": {"const": "json_schema"}, "name": STRING, "schema": _OPEN},
                    description=_null_or(STRING),
                    strict=_null_or(BOOLEAN),
                ),
            ]
        }
    ),
    verbosity={"enum": ["low", "medium", "high", None]},
)

_RESPONSE: Final[dict[str, Json]] = {
    "id": STRING,
    "object": {"const": "response"},
    "created_at": INTEGER,
    "completed_at": _null_or(INTEGER),
    "status": {"type": "string", "enum": list(get_args(ResponseStatus))},
    "error": _null_or(ref("ResponseError")),
    "incomplete_details": _null_or(_object({"reason": STRING})),
    "output": {"type": "array", "items": ref("Item")},
    "usage": _null_or(ref("Usage")),
    "model": STRING,
    "instructions": _null_or({"anyOf": [STRING, {"type": "array"}]}),
    "previous_response_id": _null_or(STRING),
    "store": BOOLEAN,
    "tools": {"type": "array", "items": _OPEN},
    "tool_choice": {"anyOf": [STRING, _OPEN]},
    "parallel_tool_calls": BOOLEAN,
    "max_output_tokens": _null_or(INTEGER),
    "temperature": NUMBER,
    "top_p": NUMBER,
    "text": _OPEN,
    "reasoning": _OPEN,
    "metadata": _METADATA,
}

_USAGE: Final[Json] = _object(
    {
        "input_tokens": _COUNT,
        "input_tokens_details": _object({"cached_tokens": _COUNT}),
        "output_tokens": _COUNT,
        "output_tokens_details": _object({"reasoning_tokens": _COUNT}),
        "total_tokens": _COUNT,
    }
)

_MODEL: Final[Json] = _object(
    {"id": STRING, "object": {"const": "model"}, "created": INTEGER, "owned_by": STRING},
    context_length={"type": "integer", "minimum": 1},
    max_output_tokens={"type": "integer", "minimum": 1},
    input_modalities={"type": "array", "items": {"enum": ["text", "image"]}},
)


def _create_response() -> Json:
    fields = {name: _REQUEST.get(name, {}) for name in honoured_fields()}
    needed = {"model": fields.pop("model")}
    # null says the same as leaving a field out
    return _object(needed, **{name: _null_or(schema) for name, schema in fields.items()})


def _structs() -> dict[str, Json]:
    types = (ReasoningOptions, ResponseError, ErrorBody)
    _, found = msgspec.json.schema_components(types, ref_template=_PREFIX + "{name}")
    return found


SCHEMAS: Final[dict[str, Json]] = {
    **_structs(),
    "TextOptions": _TEXT,
    "CreateResponse": _create_response(),
    "Response": _object(_RESPONSE),
    "StreamEvent": _object(
        {"data": {"type": "string", "contentMediaType": "application/json"}}, event=STRING
    ),
    "Item": _object({"type": STRING}, id=STRING, status=STRING),
    "Usage": _USAGE,
    "DeletedResponse": _object(
        {"id": STRING, "object": {"const": "response"}, "deleted": {"const": True}}
    ),
    "InputTokens": _object({"object": {"const": "response.input_tokens"}, "input_tokens": _COUNT}),
    "ItemList": _object(
        {
            "object": {"const": "list"},
            "data": {"type": "array", "items": ref("Item")},
            "first_id": _null_or(STRING),
            "last_id": _null_or(STRING),
            "has_more": BOOLEAN,
        }
    ),
    "Conversation": _object(
        {
            "id": STRING,
            "object": {"const": "conversation"},
            "created_at": INTEGER,
            "metadata": _METADATA,
        }
    ),
    "DeletedConversation": _object(
        {"id": STRING, "object": {"const": "conversation.deleted"}, "deleted": {"const": True}}
    ),
    "CreateConversation": _object(
        {}, items=_null_or({"type": "array", "items": _OPEN}), metadata=_null_or(_METADATA)
    ),
    "UpdateConversation": _object({"metadata": _null_or(_METADATA)}),
    "AddItems": _object({"items": {"type": "array", "items": _OPEN}}),
    "Model": _MODEL,
    "ModelList": _object(
        {"object": {"const": "list"}, "data": {"type": "array", "items": ref("Model")}}
    ),
    "CodexCatalog": _object(
        {"models": {"type": "array", "items": _object({"slug": STRING, "display_name": STRING})}}
    ),
    "Health": _object({"status": {"const": "ok"}}),
    "Ready": _object(
        {
            "status": {"enum": ["ready", "unavailable", "draining"]},
            "missing": {"type": "array", "items": STRING},
        },
        tools={"type": "array", "items": ref("ToolHealth")},
    ),
    "ToolHealth": _object(
        {
            "type": STRING,
            "name": STRING,
            "state": {"enum": ["connected", "connecting", "backing_off", "closed"]},
            "error": _null_or(STRING),
            "calls": {"type": "integer"},
            "failures": {"type": "integer"},
            "connects": {"type": "integer"},
        }
    ),
    "Root": _object({"name": {"const": "bascule"}}),
    "Error": _object({"error": ref("ErrorBody")}),
}
