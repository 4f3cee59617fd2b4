"""Options that declarations of several types have: who may call a tool, when the model is told of it,
and whether it waits for the answer."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid

T = TypeVar("T")

Callers = Sequence[Literal["direct", "programmatic"]] | None
"""`allowed_callers`: the model itself, programs that it writes; None for the default, the model."""


class _Async(msgspec.Struct):
    asynchronous: msgspec.Raw = msgspec.field(name="async", default=msgspec.Raw())


_async = json.decoder(_Async)


def may_be_called(callers: Callers) -> bool:
    """Whether the model itself may call the tool. One for programs only is not offered: nothing here
    runs programs, and it must not become callable in another way."""
    return callers is None or "direct" in callers


def ignored_options(callers: Callers, defer_loading: bool | None = None) -> list[str]:
    """The options that have no effect at a server that knows functions only. `defer_loading` is given for
    a type that nobody can search for: it is offered at once."""
    ignored: list[str] = []
    if defer_loading:
        ignored.append("defer_loading")
    if not may_be_called(callers):
        ignored.append("allowed_callers")
    return ignored


def declared(decode: Callable[[bytes | Raw], T], declaration: Raw, param: str) -> T:
    """Read a declaration of a type that does not know `async`: only functions and custom tools answer
    late. Raises ApiError 400, as recorded at OpenAI."""
    params = json.field(decode, declaration, param)
    if bytes(json.field(_async, declaration, param).asynchronous):
        place = f"{param}.async"
        raise invalid(f"Unknown parameter: '{place}'.", place, "unknown_parameter")
    return params
