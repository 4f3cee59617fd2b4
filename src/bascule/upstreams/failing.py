"""Telling a receiver of its failure, which must not fail itself."""

import asyncio

from bascule.upstreams.client import FailureKind, Receiver, UpstreamFailure


def tell(
    receiver: Receiver,
    kind: FailureKind,
    message: str,
    *,
    answered: bool,
    cause: BaseException | None = None,
) -> None:
    """Call `receiver.fail`; what that raises goes to the event loop's exception handler."""
    failure = UpstreamFailure(kind, message, answered=answered)
    failure.__cause__ = cause
    try:
        receiver.fail(failure)
    except Exception as error:  # noqa: BLE001 - there is nobody left to tell but the loop
        asyncio.get_running_loop().call_exception_handler(
            {"message": "a receiver's fail raised", "exception": error}
        )
