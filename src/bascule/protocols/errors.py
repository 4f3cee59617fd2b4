"""The one error type that reaches a client; each door renders it as its protocol does."""

from typing import Final

TYPE_BY_STATUS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """An error to be shown to the client.

    `status` is the HTTP status while no byte of the answer has left; inside a stream it only
    chooses the default `type`. `retry_after` is the upstream's header, verbatim.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        type: str | None = None,  # noqa: A002 -- the field's name on the wire
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.type = type or TYPE_BY_STATUS.get(status, "server_error")
        self.retry_after = retry_after

    def __repr__(self) -> str:
        return (
            f"ApiError({self.status}, {self.message!r}, code={self.code!r}, param={self.param!r})"
        )


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400 that names the field at fault."""
    return ApiError(400, message, param=param, code=code)
