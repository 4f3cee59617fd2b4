"""One declaration of each type, as clients send them; `seen` is how a function of it is called."""

from typing import Any

Json = dict[str, Any]

_MEMBER: Json = {"type": "function", "name": "find", "parameters": {"type": "object"}}

DECLARED: dict[str, Json] = {
    "function": {"type": "function", "name": "x", "description": "X"},
    "custom": {"type": "custom", "name": "x", "description": "X"},
    "namespace": {"type": "namespace", "name": "crm", "description": "", "tools": [_MEMBER]},
    "tool_search": {"type": "tool_search"},
    "programmatic_tool_calling": {"type": "programmatic_tool_calling"},
    "web_search": {"type": "web_search"},
    "web_search_2025_08_26": {"type": "web_search_2025_08_26"},
    "web_search_preview": {"type": "web_search_preview"},
    "web_search_preview_2025_03_11": {"type": "web_search_preview_2025_03_11"},
    "file_search": {"type": "file_search", "vector_store_ids": ["vs_1"]},
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "mcp": {"type": "mcp", "server_label": "docs", "server_url": "https://10.0.0.1/mcp"},
    "image_generation": {"type": "image_generation"},
    "shell": {"type": "shell", "environment": {"type": "local"}},
    "apply_patch": {"type": "apply_patch"},
    "local_shell": {"type": "local_shell"},
    "computer": {"type": "computer"},
    "computer_use_preview": {
        "type": "computer_use_preview",
        "display_width": 800,
        "display_height": 600,
        "environment": "browser",
    },
    "slug:name": {"type": "acme:add"},
    "any other": {"type": "acme:nobody"},
}

WIRE: dict[str, str] = {
    "function": "x",
    "custom": "x",
    "namespace": "crm__find",
    "computer_use_preview": "computer",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "slug:name": "acme__add",
}
"""Names of the functions, where they are not called as the type is."""

SECRET = "tops3cretvalue"

_LONG: Json = {
    "type": "and",
    "filters": [
        {"type": "eq", "key": "a", "value": "b"},
        {
            "type": "or",
            "filters": [
                {"type": "gte", "key": "n", "value": 1.5},
                {"type": "in", "key": "n", "value": ["a", 1]},
                {"type": "ne", "key": "n", "value": True},
            ],
        },
    ],
}
_FILES: Json = DECLARED["file_search"]
_MCP: Json = DECLARED["mcp"]
_CODE: Json = DECLARED["code_interpreter"]
_PREVIEW: Json = DECLARED["computer_use_preview"]
_CALLERS = ["direct", "programmatic"]
_DOMAINS: Json = {"type": "allowlist", "allowed_domains": ["a.example"]}


def _shell(**environment: Any) -> Json:
    return {"type": "shell", "environment": environment}


ACCEPTED: list[Json] = [
    {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.example"]},
        "search_context_size": "high",
        "user_location": {"type": "approximate", "city": "Oslo", "country": None},
        "external_web_access": False,
        "search_content_types": ["text", "image"],
        "index_gated": True,
    },
    {"type": "web_search_2025_08_26", "filters": None, "user_location": None},
    {
        "type": "web_search_preview",
        "search_context_size": "low",
        "user_location": {"type": "approximate", "timezone": "Europe/Oslo"},
    },
    {**_FILES, "filters": _LONG, "max_num_results": 50},
    {
        **_FILES,
        "filters": {"type": "nin", "key": "a", "value": [1, 2]},
        "ranking_options": {
            "ranker": "default-2024-11-15",
            "score_threshold": 1,
            "hybrid_search": {"embedding_weight": 0.5, "text_weight": 2},
        },
    },
    {"type": "code_interpreter", "container": "cntr_1", "allowed_callers": ["programmatic"]},
    {
        "type": "code_interpreter",
        "container": {
            "type": "auto",
            "file_ids": ["file_1"],
            "memory_limit": "64g",
            "network_policy": {"type": "disabled"},
        },
    },
    {
        **_MCP,
        "server_description": "Docs",
        "allowed_tools": ["a"],
        "require_approval": "never",
        "defer_loading": True,
        "allowed_callers": _CALLERS,
    },
    {
        "type": "mcp",
        "server_label": "mail",
        "server_url": "https://10.0.0.1/mcp",
        "allowed_tools": {"read_only": True, "tool_names": ["a"]},
        "require_approval": {"always": {"tool_names": ["a"]}, "never": {"read_only": True}},
    },
    {
        "type": "image_generation",
        "action": "edit",
        "background": "transparent",
        "complexity": "low",
        "frame_count": 9,
        "frame_duration_ms": 200,
        "input_fidelity": "high",
        "input_image_mask": {"file_id": "file_1"},
        "model": "gpt-image-2",
        "moderation": "low",
        "output_compression": 0,
        "output_format": "webp",
        "partial_images": 3,
        "quality": "max",
        "size": "1536x864",
        "svg": {"model": "m", "reasoning": {"effort": "low"}},
    },
    _shell(
        type="container_auto",
        file_ids=["file_1"],
        memory_limit="1g",
        network_policy=_DOMAINS,
        skills=[
            {"type": "skill_reference", "skill_id": "s", "version": "1"},
            {
                "type": "inline",
                "name": "n",
                "description": "d",
                "source": {"type": "base64", "media_type": "application/zip", "data": "AA=="},
            },
        ],
    ),
    _shell(type="container_reference", container_id="cntr_1"),
    _shell(type="local", skills=[{"name": "n", "description": "d", "path": "/s"}]),
    {"type": "shell", "environment": None, "allowed_callers": None},
    {"type": "apply_patch", "allowed_callers": ["direct"]},
    {**_PREVIEW, "environment": "ubuntu"},
    {
        "type": "function",
        "name": "f",
        "description": None,
        "parameters": {"type": "object", "properties": {}},
        "strict": True,
        "output_schema": {"type": "object"},
        "defer_loading": True,
        "allowed_callers": _CALLERS,
        "async": True,
    },
    {
        "type": "custom",
        "name": "c",
        "format": {"type": "text"},
        "defer_loading": False,
        "allowed_callers": _CALLERS,
        "async": True,
    },
    {"type": "namespace", "name": "n", "description": "", "tools": []},
]
"""Declarations with all that the documents tell of."""

_TYPE, _VALUE = "invalid_type", "invalid_value"
_MISSING, _EMPTY = "missing_required_parameter", "empty_string"
_FILTER = ".filters.filters[1].filters[0]"


def _filtered(one: Json) -> Json:
    inner = {"type": "or", "filters": [one]}
    first = {"type": "eq", "key": "a", "value": 1}
    return {**_FILES, "filters": {"type": "and", "filters": [first, inner]}}


WRONG: list[tuple[Json, str, str]] = [
    (
        {"type": "web_search", "filters": {"allowed_domains": ["a", 5]}},
        ".filters.allowed_domains[1]",
        _TYPE,
    ),
    ({"type": "web_search", "search_context_size": "huge"}, ".search_context_size", _VALUE),
    ({"type": "web_search", "user_location": {"type": "exact"}}, ".user_location.type", _VALUE),
    ({"type": "web_search_2025_08_26", "user_location": {"city": 5}}, ".user_location.city", _TYPE),
    ({"type": "web_search", "external_web_access": "yes"}, ".external_web_access", _TYPE),
    (
        {"type": "web_search_preview", "search_content_types": ["text", "film"]},
        ".search_content_types[1]",
        _VALUE,
    ),
    ({"type": "web_search", "async": True}, ".async", "unknown_parameter"),
    ({"type": "file_search"}, ".vector_store_ids", _MISSING),
    (
        {"type": "file_search", "vector_store_ids": []},
        ".vector_store_ids",
        "array_below_min_length",
    ),
    ({"type": "file_search", "vector_store_ids": "vs_1"}, ".vector_store_ids", _TYPE),
    ({**_FILES, "max_num_results": 0}, ".max_num_results", "integer_below_min_value"),
    ({**_FILES, "max_num_results": 51}, ".max_num_results", "integer_above_max_value"),
    ({**_FILES, "max_num_results": 1.5}, ".max_num_results", _TYPE),
    ({**_FILES, "ranking_options": {"ranker": "best"}}, ".ranking_options.ranker", _VALUE),
    (
        {**_FILES, "ranking_options": {"score_threshold": 1.1}},
        ".ranking_options.score_threshold",
        "decimal_above_max_value",
    ),
    (
        {**_FILES, "ranking_options": {"hybrid_search": {"embedding_weight": 1}}},
        ".ranking_options.hybrid_search.text_weight",
        _MISSING,
    ),
    ({**_FILES, "filters": {"type": "like", "key": "a", "value": 1}}, ".filters.type", _VALUE),
    ({**_FILES, "filters": {"type": "and"}}, ".filters.filters", _MISSING),
    ({**_FILES, "filters": {"type": "or", "filters": []}}, ".filters.filters", "empty_array"),
    (_filtered({"type": "eq", "value": 1}), f"{_FILTER}.key", _MISSING),
    (_filtered({"type": "eq", "key": "a"}), f"{_FILTER}.value", _MISSING),
    (_filtered({"type": "eq", "key": 5, "value": 1}), f"{_FILTER}.key", _TYPE),
    (_filtered({"type": "in", "key": "a", "value": 1}), f"{_FILTER}.value", _TYPE),
    (_filtered({"type": "eq", "key": "a", "value": [1]}), f"{_FILTER}.value", _TYPE),
    (_filtered({"type": "gt", "key": "a", "value": True}), f"{_FILTER}.value", _TYPE),
    (_filtered({"type": "eq", "key": "a", "value": {}}), f"{_FILTER}.value", _TYPE),
    ({"type": "code_interpreter"}, ".container", _MISSING),
    ({**_CODE, "container": {"type": "manual"}}, ".container.type", _VALUE),
    (
        {**_CODE, "container": {"type": "auto", "memory_limit": "2g"}},
        ".container.memory_limit",
        _VALUE,
    ),
    ({**_CODE, "container": {"type": "auto", "file_ids": [1]}}, ".container.file_ids[0]", _TYPE),
    (
        {**_CODE, "container": {"type": "auto", "network_policy": {"type": "allowlist"}}},
        ".container.network_policy.allowed_domains",
        _MISSING,
    ),
    ({**_CODE, "allowed_callers": ["me"]}, ".allowed_callers[0]", _VALUE),
    ({"type": "mcp", "server_url": "https://a.example"}, ".server_label", _MISSING),
    ({"type": "mcp", "server_label": "a"}, ".server_url", _MISSING),
    ({**_MCP, "server_label": ""}, ".server_label", _EMPTY),
    ({**_MCP, "connector_id": "c"}, ".connector_id", "mutually_exclusive_parameters"),
    ({**_MCP, "tunnel_id": "t"}, ".tunnel_id", "mutually_exclusive_parameters"),
    ({**_MCP, "server_url": "ftp://a.example"}, ".server_url", _VALUE),
    ({**_MCP, "server_url": "docs"}, ".server_url", _VALUE),
    ({"type": "mcp", "server_label": "a", "tunnel_id": ""}, ".tunnel_id", _EMPTY),
    ({"type": "mcp", "server_label": "a", "tunnel_id": "t"}, ".tunnel_id", "unsupported_parameter"),
    ({"type": "mcp", "server_label": "a", "connector_id": "c"}, ".connector_id", _VALUE),
    ({**_MCP, "headers": {"a": 5}}, ".headers.a", _TYPE),
    ({**_MCP, "authorization": 5}, ".authorization", _TYPE),
    ({**_MCP, "allowed_tools": ["a", 5]}, ".allowed_tools[1]", _TYPE),
    ({**_MCP, "allowed_tools": {"tool_names": "a"}}, ".allowed_tools.tool_names", _TYPE),
    ({**_MCP, "require_approval": "sometimes"}, ".require_approval", _VALUE),
    (
        {**_MCP, "require_approval": {"never": {"read_only": 1}}},
        ".require_approval.never.read_only",
        _TYPE,
    ),
    ({**_MCP, "defer_loading": "yes"}, ".defer_loading", _TYPE),
    ({"type": "image_generation", "quality": "best"}, ".quality", _VALUE),
    (
        {"type": "image_generation", "partial_images": 4},
        ".partial_images",
        "integer_above_max_value",
    ),
    (
        {"type": "image_generation", "output_compression": -1},
        ".output_compression",
        "integer_below_min_value",
    ),
    (
        {"type": "image_generation", "input_image_mask": {"file_id": 1}},
        ".input_image_mask.file_id",
        _TYPE,
    ),
    (
        {"type": "image_generation", "svg": {"reasoning": {"effort": "some"}}},
        ".svg.reasoning.effort",
        _VALUE,
    ),
    ({"type": "computer_use_preview"}, ".display_width", _MISSING),
    ({**_PREVIEW, "display_height": 0}, ".display_height", "integer_below_min_value"),
    ({**_PREVIEW, "environment": "beos"}, ".environment", _VALUE),
    ({"type": "computer", "async": False}, ".async", "unknown_parameter"),
    (_shell(type="cloud"), ".environment.type", _VALUE),
    (_shell(), ".environment.type", _MISSING),
    (_shell(type="container_reference"), ".environment.container_id", _MISSING),
    (_shell(type="local", skills=[{"name": "n"}]), ".environment.skills[0].description", _MISSING),
    (
        _shell(type="container_auto", skills=[{"type": "inline", "name": "n", "description": "d"}]),
        ".environment.skills[0].source",
        _MISSING,
    ),
    (
        _shell(
            type="container_auto", network_policy={**_DOMAINS, "domain_secrets": [{"domain": "a"}]}
        ),
        ".environment.network_policy.domain_secrets[0].name",
        _MISSING,
    ),
    ({"type": "shell", "allowed_callers": "direct"}, ".allowed_callers", _TYPE),
    ({"type": "apply_patch", "allowed_callers": [1]}, ".allowed_callers[0]", _TYPE),
    ({"type": "function", "name": "f", "output_schema": []}, ".output_schema", _TYPE),
    ({"type": "function", "name": "f", "async": "yes"}, ".async", _TYPE),
    ({"type": "function", "name": "f", "defer_loading": 1}, ".defer_loading", _TYPE),
    ({"type": "function", "name": "f", "allowed_callers": ["x"]}, ".allowed_callers[0]", _VALUE),
    ({"type": "function", "name": "f", "description": 5}, ".description", _TYPE),
    ({"type": "function", "name": "f", "strict": "yes"}, ".strict", _TYPE),
    ({"type": "function", "name": ""}, ".name", _EMPTY),
    ({"type": "custom", "name": "c", "async": 1}, ".async", _TYPE),
    ({"type": "custom", "name": "c", "allowed_callers": ["x"]}, ".allowed_callers[0]", _VALUE),
    ({"type": "namespace", "name": "", "tools": []}, ".name", _EMPTY),
    ({"type": "namespace", "name": "n", "description": 5, "tools": []}, ".description", _TYPE),
    ({"type": "namespace", "name": "n"}, ".tools", _MISSING),
    (
        {"type": "namespace", "name": "n", "tools": [{"type": "function"}]},
        ".tools[0].name",
        _MISSING,
    ),
    (
        {"type": "namespace", "name": "n", "tools": [_MEMBER, DECLARED["namespace"]]},
        ".tools[1].type",
        _VALUE,
    ),
    (
        {"type": "namespace", "name": "n", "tools": [{**_MEMBER, "output_schema": 5}]},
        ".tools[0].output_schema",
        _TYPE,
    ),
]
"""Declarations with one wrong member, its path and the code."""
