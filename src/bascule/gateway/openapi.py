"""The OpenAPI document, from a table with an entry for each route.

A new route gets an entry in OPERATIONS; a test holds the table to the routes. Shapes stand in
`openapi_schemas`.
"""

from typing import Any, Final

import msgspec

from bascule.gateway.openapi_schemas import SCHEMAS, ref
from bascule.protocols import capabilities

JSON: Final = "application/json"
SSE: Final = "text/event-stream"

Json = dict[str, Any]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    id: str
    summary: str
    answers: dict[int, Json]
    """By status: content type to schema."""
    errors: tuple[int, ...] = ()
    """Statuses that have the API's error object."""
    parameters: tuple[Json, ...] = ()
    body: str | None = None
    """The schema of the request's body."""
    key: bool = True
    """Whether it needs an API key where keys are configured."""
    passes_errors: bool = False
    """Whether a model server's own statuses come through."""


def in_path(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1},
    }


def in_query(name: str, description: str, **schema: Any) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


_RESPONSE_ID: Final = in_path("response_id", "The id of a stored response.")
_CONVERSATION_ID: Final = in_path("conversation_id", "The id of a conversation: `conv_...`.")
_ITEM_ID: Final = in_path("item_id", "The id of an item.")
_INCLUDE: Final = in_query(
    "include[]",
    "What is to be shown besides.",
    type="array",
    items={"type": "string", "enum": list(capabilities.INCLUDES)},
)
_PAGING: Final = (
    in_query("after", "The id of the item before the page.", type="string"),
    in_query("limit", "Items in a page.", type="integer", minimum=1, maximum=100, default=20),
    in_query("order", "Newest or oldest first.", type="string", enum=["asc", "desc"]),
    _INCLUDE,
)

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("POST", "/v1/responses"): Operation(
        id="createResponse",
        summary="Run a turn; with `stream` its events are sent as they come.",
        body="CreateResponse",
        answers={200: {JSON: ref("Response"), SSE: ref("StreamEvent")}},
        errors=(400, 404, 413, 415, 500, 502, 503, 504),
        passes_errors=True,
    ),
    ("GET", "/v1/responses/{response_id}"): Operation(
        id="getResponse",
        summary="A stored response.",
        parameters=(
            _RESPONSE_ID,
            in_query("stream", "Only `false` is supported yet.", type="string", enum=["false"]),
            _INCLUDE,
        ),
        answers={200: {JSON: ref("Response")}},
        errors=(400, 404, 500),
    ),
    ("DELETE", "/v1/responses/{response_id}"): Operation(
        id="deleteResponse",
        summary="Delete a stored response.",
        parameters=(_RESPONSE_ID,),
        answers={200: {JSON: ref("DeletedResponse")}},
        errors=(404, 500),
    ),
    ("GET", "/v1/responses/{response_id}/input_items"): Operation(
        id="listInputItems",
        summary="What the model read for a response: the history before it, and its own input.",
        parameters=(_RESPONSE_ID, *_PAGING),
        answers={200: {JSON: ref("ItemList")}},
        errors=(400, 404, 500),
    ),
    ("POST", "/v1/responses/input_tokens"): Operation(
        id="countInputTokens",
        summary="The tokens that a turn with this body would read.",
        body="CreateResponse",
        answers={200: {JSON: ref("InputTokens")}},
        errors=(400, 404, 413, 415, 500),
    ),
    ("POST", "/v1/conversations"): Operation(
        id="createConversation",
        summary="Begin a conversation.",
        body="CreateConversation",
        answers={200: {JSON: ref("Conversation")}},
        errors=(400, 404, 413, 415, 500),
    ),
    ("GET", "/v1/conversations/{conversation_id}"): Operation(
        id="getConversation",
        summary="A conversation, without its items.",
        parameters=(_CONVERSATION_ID,),
        answers={200: {JSON: ref("Conversation")}},
        errors=(400, 404, 500),
    ),
    ("POST", "/v1/conversations/{conversation_id}"): Operation(
        id="updateConversation",
        summary="Set a conversation's metadata.",
        parameters=(_CONVERSATION_ID,),
        body="UpdateConversation",
        answers={200: {JSON: ref("Conversation")}},
        errors=(400, 404, 413, 415, 500),
    ),
    ("DELETE", "/v1/conversations/{conversation_id}"): Operation(
        id="deleteConversation",
        summary="Delete a conversation; its responses stay.",
        parameters=(_CONVERSATION_ID,),
        answers={200: {JSON: ref("DeletedConversation")}},
        errors=(400, 404, 500),
    ),
    ("POST", "/v1/conversations/{conversation_id}/items"): Operation(
        id="addItems",
        summary="Add items to the end of a conversation.",
        parameters=(_CONVERSATION_ID, _INCLUDE),
        body="AddItems",
        answers={200: {JSON: ref("ItemList")}},
        errors=(400, 404, 409, 413, 415, 500),
    ),
    ("GET", "/v1/conversations/{conversation_id}/items"): Operation(
        id="listItems",
        summary="A conversation's items, in pages.",
        parameters=(_CONVERSATION_ID, *_PAGING),
        answers={200: {JSON: ref("ItemList")}},
        errors=(400, 404, 500),
    ),
    ("GET", "/v1/conversations/{conversation_id}/items/{item_id}"): Operation(
        id="getItem",
        summary="One item of a conversation.",
        parameters=(_CONVERSATION_ID, _ITEM_ID, _INCLUDE),
        answers={200: {JSON: ref("Item")}},
        errors=(400, 404, 500),
    ),
    ("DELETE", "/v1/conversations/{conversation_id}/items/{item_id}"): Operation(
        id="deleteItem",
        summary="Take an item out of a conversation.",
        parameters=(_CONVERSATION_ID, _ITEM_ID),
        answers={200: {JSON: ref("Conversation")}},
        errors=(400, 404, 409, 500),
    ),
    ("GET", "/v1/models"): Operation(
        id="listModels",
        summary="The models that a request can name; in Codex's shape with `client_version`.",
        parameters=(in_query("client_version", "Codex's version.", type="string"),),
        answers={200: {JSON: {"anyOf": [ref("ModelList"), ref("CodexCatalog")]}}},
    ),
    ("GET", "/v1/models/{model_id}"): Operation(
        id="getModel",
        summary="One model; its name may hold slashes.",
        parameters=(in_path("model_id", "A name that a request can use."),),
        answers={200: {JSON: ref("Model")}},
        errors=(404,),
    ),
    ("GET", "/health"): Operation(
        id="health",
        summary="Whether the process answers.",
        answers={200: {JSON: ref("Health")}},
        key=False,
    ),
    ("GET", "/ready"): Operation(
        id="ready",
        summary="Whether turns can be served.",
        answers={200: {JSON: ref("Ready")}, 503: {JSON: ref("Ready")}},
        key=False,
    ),
    ("GET", "/metrics"): Operation(
        id="metrics",
        summary="Prometheus metrics.",
        answers={
            200: {
                "text/plain": {"type": "string"},
                "application/openmetrics-text": {"type": "string"},
            }
        },
    ),
    ("GET", "/openapi.json"): Operation(
        id="openapi",
        summary="This document.",
        answers={200: {JSON: {"type": "object"}}},
        key=False,
    ),
    ("GET", "/"): Operation(
        id="root",
        summary="What clients ask before they begin.",
        answers={200: {JSON: ref("Root")}},
        key=False,
    ),
}
"""By method and path, in the order in which they are shown."""


def document(version: str) -> Json:
    """OpenAPI 3.1."""
    paths: dict[str, Json] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _shown(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bascule",
            "version": version,
            "description": "An agentic gateway: any agent client to any model server.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _shown(operation: Operation) -> Json:
    responses: Json = {
        str(status): _answer("The answer.", content)
        for status, content in operation.answers.items()
    }
    errors = (*operation.errors, 401) if operation.key else operation.errors
    for status in sorted({*errors, 405}):
        responses.setdefault(str(status), _error("An error."))
    if operation.passes_errors:
        responses["default"] = _error("The model server's own status.")
    shown: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": list(operation.parameters),
        "responses": responses,
        # None of them: it depends on the configuration whether a key is needed.
        "security": [{"bearer": []}, {"header": []}, {}] if operation.key else [],
    }
    if operation.body is not None:
        body = {"required": True, "content": {JSON: {"schema": ref(operation.body)}}}
        shown["requestBody"] = body
    return shown


def _answer(description: str, content: Json) -> Json:
    return {
        "description": description,
        "headers": {"x-request-id": {"schema": {"type": "string"}}},
        "content": {type_: {"schema": schema} for type_, schema in content.items()},
    }


def _error(description: str) -> Json:
    return _answer(description, {JSON: ref("Error")})
