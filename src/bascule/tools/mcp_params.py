"""What an `mcp` declaration says: which server, which of its tools, and which calls need an approval."""

from collections.abc import Container
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.telemetry.redact import Redactor
from bascule.tools.options import Callers, declared

_WHERE: Final = ("server_url", "connector_id", "tunnel_id")


class ToolFilter(msgspec.Struct):
    """Which tools: those of these names, those that only read, or both."""

    tool_names: list[str] | None = None
    read_only: bool | None = None


class ApprovalFilters(msgspec.Struct):
    """Which tools' calls always need an approval, and which never do."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


class McpParams(msgspec.Struct):
    """`headers` and `authorization` are the client's credentials: never shown, never kept."""

    server_label: str
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    server_description: str | None = None
    headers: dict[str, str] | None = None
    authorization: str | None = None
    allowed_tools: list[str] | ToolFilter | None = None
    require_approval: Literal["always", "never"] | ApprovalFilters | None = None
    """None is `always`."""
    defer_loading: bool | None = None
    allowed_callers: Callers = None


_decode = json.decoder(McpParams)
_redact = Redactor().text


def read_mcp(declaration: Raw, param: str, labels: Container[str]) -> McpParams:
    """`labels` are those of configured servers, which need nothing else. Raises ApiError 400 with the
    path below `param`."""
    params = declared(_decode, declaration, param)
    if not params.server_label:
        raise _empty(f"{param}.server_label")
    given = [name for name in _WHERE if getattr(params, name) is not None]
    if not given:
        if params.server_label in labels:
            return params
        raise invalid(
            f"Missing required parameter: '{param}.server_url'. An MCP server needs one of "
            f"{', '.join(_WHERE)}, or the label of one that this server knows.",
            f"{param}.server_url",
            "missing_required_parameter",
        )
    if len(given) > 1:
        raise invalid(
            f"An MCP server has one of {', '.join(_WHERE)}, not both '{given[0]}' and "
            f"'{given[1]}'.",
            f"{param}.{given[1]}",
            "mutually_exclusive_parameters",
        )
    if not getattr(params, given[0]):
        raise _empty(f"{param}.{given[0]}")
    if params.server_url is not None:
        _check_url(params.server_url, f"{param}.server_url")
    if params.tunnel_id is not None:
        raise invalid(
            "This server has no tunnels: name the MCP server by 'server_url'.",
            f"{param}.tunnel_id",
            "unsupported_parameter",
        )
    return params


def _check_url(url: str, place: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = parts = None
    if parts is None or not host or parts.scheme not in ("http", "https"):
        raise invalid(f"Invalid URL for '{place}': expected http or https.", place, "invalid_value")


def _empty(place: str) -> ApiError:
    return invalid(f"'{place}' is empty.", place, "empty_string")


def without_credentials(declaration: Raw) -> Raw:
    """A declaration as it may be shown; a key inside the URL is masked."""
    members: dict[str, Any] = dict(json.envelope(bytes(declaration)))
    members.pop("authorization", None)
    if "headers" in members:
        members["headers"] = None
    url = members.get("server_url")
    if url is not None:
        members["server_url"] = Raw(_redact(bytes(url).decode()).encode())
    return Raw(json.encode(members))
