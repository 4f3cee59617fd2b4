"""How asking an MCP server can fail, in words for the model and the client."""

from typing import Any, Final

INTERNAL_ERROR: Final = -32603
PARSE_ERROR: Final = -32700
CONNECTION_CLOSED: Final = -32000
REQUEST_TIMEOUT: Final = -32001
"""JSON-RPC codes, the last two of the SDK's own."""

_CODES: Final = {"timeout": REQUEST_TIMEOUT, "connection_closed": CONNECTION_CLOSED}
"""Of what failed on this side."""


class McpError(Exception):
    """`code` is the HTTP status or the JSON-RPC code of a server's own error, else a word; the message
    names no address and no credentials."""

    loggable = True

    def __init__(
        self,
        type_: str,
        code: int | str,
        message: str,
        *,
        lost: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.refused = refused
        """Whether the server has not looked at the request, so that it may be made again."""
        self.type = type_
        self.code = code
        self.message = message
        self.lost = lost
        """Whether the connection is of no use any more."""

    def shown(self) -> dict[str, Any]:
        """The error object of an item, as recorded at OpenAI."""
        code = self.code if isinstance(self.code, int) else _CODES.get(self.code, INTERNAL_ERROR)
        return {"type": self.type, "code": code, "message": self.message}


def timed_out(what: str, seconds: float) -> McpError:
    return McpError("protocol_error", "timeout", f"The MCP server did not {what} in {seconds:g} s.")


def closed(why: str = "The connection to the MCP server was lost.") -> McpError:
    return McpError("protocol_error", "connection_closed", why, lost=True)


def http_error(status: int, *, gone: bool = False) -> McpError:
    """Of an answer that is an HTTP error; a session that is `gone` begins anew."""
    message = f"The MCP server answered with HTTP status {status}."
    return McpError("http_error", status, message, lost=gone, refused=gone)
