"""`bascule.tool`: a tool type that is a Python function."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from bascule.plugin.gateway_tool import TYPE, Declaration, GatewayTool
from bascule.toolkit.executor import ExecutionContext
from bascule.toolkit.options import ToolOptions
from bascule.toolkit.signature import arguments_of
from bascule.toolkit.thread import in_thread

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__bascule_tool__"


class FunctionTool(GatewayTool[Any, ToolOptions, Declaration]):
    """Calls a function with the decoded arguments; one that is not async runs in a thread."""

    function: ClassVar[Callable[..., Any]]

    async def run(
        self, arguments: msgspec.Struct, declared: Declaration, context: ExecutionContext
    ) -> Any:
        function = type(self).function
        values = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
        if inspect.iscoroutinefunction(function):
            return await function(**values)
        return await in_thread(functools.partial(function, **values))


def tool(
    type: str,  # noqa: A002 -- what it is called in a declaration
    *,
    description: str | None = None,
    timeout: float = 60.0,
    parallel: bool = False,
) -> Callable[[F], F]:
    """Make a function a tool that the gateway runs, offered to requests which declare
    `{"type": type}`. The function itself stays as it is.

    The model is told of the parameters by their annotations, and of the purpose by the docstring,
    unless `description` is given. Arguments are decoded to the annotated types. The result is a
    text, a list of `Part`s, or anything that JSON can say; ToolError tells the model what went wrong.
    `timeout` is in seconds; `parallel` says whether calls of one turn may overlap.

    Raises TypeError for a function that no model can be told of.
    """
    if not isinstance(type, str) or not TYPE.fullmatch(type):  # pyright: ignore[reportUnnecessaryIsInstance] -- `@tool` alone
        raise TypeError(f"@tool needs a type of the form slug:name, not {type!r}")

    def mark(function: F) -> F:
        kept = function
        if not inspect.isfunction(function):
            raise TypeError(f"@tool({type!r}): it goes onto a function")
        text = description or inspect.cleandoc(function.__doc__ or "")
        if not text:
            raise TypeError(f"{function.__name__}: the model needs a docstring or a description")
        members: dict[str, Any] = {
            "type": type,
            "description": text,
            "timeout": timeout,
            "parallel": parallel,
            "arguments": arguments_of(function),
            "function": staticmethod(function),
            "__module__": function.__module__,
        }
        function.__dict__[_MARK] = _make(function.__name__, members)
        return kept

    return mark


def _make(name: str, members: dict[str, Any]) -> type[FunctionTool]:
    return type(name, (FunctionTool,), members)


def tool_of(thing: object) -> type[GatewayTool[Any, Any, Any]] | None:
    """The class behind a decorated function; None for anything else."""
    return getattr(thing, "__dict__", {}).get(_MARK) if inspect.isfunction(thing) else None
