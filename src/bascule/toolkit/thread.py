"""Functions that block, away from the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_thread(run: Callable[[], T]) -> T:
    """Run in a thread of its own.

    Nothing can stop a thread: one whose caller does not wait any more runs on to its end, which
    nobody hears of. Such threads neither take the places of others, as they would in a pool, nor
    keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context = copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(run)
        except BaseException as e:  # noqa: BLE001 -- raised again where somebody waits
            error = e
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="bascule-tool", daemon=True).start()
    result, error = await done
    if error is None:
        return result  # pyright: ignore[reportReturnType] -- T may hold None itself
    if isinstance(error, Exception):
        raise error
    raise RuntimeError(f"the thread ended in {type(error).__name__}") from error
