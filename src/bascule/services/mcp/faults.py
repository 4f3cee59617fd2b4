"""What a fault of the SDK means."""

import re
from typing import Final, cast

import httpx2
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from bascule.services.egress import EgressError
from bascule.services.mcp.errors import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    McpError,
    closed,
    http_error,
)

_WORDS: Final = 1000
"""Signs of a server's own message that are passed on."""
_GONE: Final = "Session terminated"
_STAND_INS: Final = (_GONE, "Not Found", "Server returned an error response")
"""What the SDK says of an HTTP error whose body is no error of the protocol."""
_LIMIT: Final = re.compile(r"exceeded the \d+ byte limit|has more than \d+ bytes")
"""What the SDK and the capped transport say of an answer that was cut."""


def translated(fault: BaseException, status: int | None = None) -> McpError:
    """What a fault of the SDK means. `status` is the HTTP status of an answer to this request that
    was an error: the SDK does not pass it on, and puts words of its own in its place."""
    fault = innermost(fault)
    if isinstance(fault, McpError):
        return fault
    if isinstance(fault, EgressError):
        return McpError("protocol_error", fault.code, fault.message)
    if isinstance(fault, httpx2.HTTPStatusError):
        return http_error(fault.response.status_code)
    if isinstance(fault, MCPError) and status is not None and fault.message in _STAND_INS:
        return http_error(status, gone=fault.message == _GONE)
    if isinstance(fault, MCPError):
        return _of_protocol(fault)
    if isinstance(fault, httpx2.TimeoutException | TimeoutError):
        return McpError(
            "protocol_error", "timeout", "The MCP server did not answer in time.", lost=True
        )
    if isinstance(fault, httpx2.TransportError | OSError):
        told = "The MCP server cannot be reached."
        return McpError("protocol_error", "unreachable", told, lost=True)
    if isinstance(fault, ValidationError):
        told = "The MCP server's answer is not what the protocol says."
        return McpError("protocol_error", "invalid_answer", told)
    if isinstance(fault, RuntimeError):  # of the SDK: a result that is not as the tool promised
        return McpError("protocol_error", "invalid_answer", str(fault)[:_WORDS])
    return McpError("protocol_error", "internal_error", f"The call failed: {type(fault).__name__}.")


def _of_protocol(fault: MCPError) -> McpError:
    if fault.code == CONNECTION_CLOSED and fault.message == "Connection closed":
        return closed()
    if fault.code in (CONNECTION_CLOSED, PARSE_ERROR):  # of one answer alone
        if _LIMIT.search(fault.message):
            return McpError("protocol_error", "too_large", "The MCP server's answer is too large.")
        return McpError("protocol_error", "invalid_answer", fault.message[:_WORDS])
    if fault.code == REQUEST_TIMEOUT:
        return McpError("protocol_error", "timeout", "The MCP server did not answer in time.")
    return McpError("protocol_error", fault.code, fault.message[:_WORDS])


def innermost(fault: BaseException) -> BaseException:
    """The first fault inside groups of them."""
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault
