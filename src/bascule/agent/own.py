"""`tool`: a Python function as a tool of the agent's."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.handler import LocalHandler, ToolInvocation, ToolSpec, arguments
from bascule.agent.processes.output import shortened
from bascule.protocols.responses.items import Part
from bascule.toolkit.signature import arguments_of, schema_of
from bascule.toolkit.thread import in_thread

_MARK: Final = "__bascule_agent_tool__"


class FunctionTool(LocalHandler):
    """Calls a function with the decoded arguments; one that is not async runs in a thread."""

    def __init__(
        self, function: Callable[..., Any], name: str, about: str, *, parallel: bool
    ) -> None:
        self.name = ToolName(None, name)
        self.parallel = parallel  # type: ignore[misc] -- said of each by itself
        self._function = function
        self._about = about
        self._arguments: type[msgspec.Struct] = arguments_of(function)
        self._schema: Any = msgspec.json.decode(schema_of(self._arguments))

    def spec(self) -> ToolSpec:
        return ToolSpec(
            {
                "type": "function",
                "name": self.name.name,
                "description": self._about,
                "strict": False,
                "parameters": self._schema,
            }
        )

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        given = arguments(invocation.payload, self._arguments)
        values = {name: getattr(given, name) for name in given.__struct_fields__}
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(**values)
        else:
            result = await in_thread(functools.partial(self._function, **values))
        return _output(result, invocation.session.settings.tools.max_output_tokens)


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
) -> Any:
    """Make a function a tool of the agent's: `@tool`, or `@tool(parallel=True)`.

    The model is told of the parameters by their annotations, and of the purpose by the docstring,
    unless `description` is given. Arguments are decoded to the annotated types. The result is a text, a
    list of `Part`s, a `ToolOutput`, or anything that JSON can say; ToolFault tells the model what went
    wrong. `parallel` says whether it may run beside others. The function itself stays as it is.

    Raises TypeError for a function that no model can be told of.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(function):
            raise TypeError("@tool goes onto a function")
        about = description or inspect.cleandoc(function.__doc__ or "")
        if not about:
            raise TypeError(f"{function.__name__}: the model needs a docstring or a description")
        made = FunctionTool(function, name or function.__name__, about, parallel=parallel)
        function.__dict__[_MARK] = made
        return function

    return mark if function is None else mark(function)


def handler_of(thing: object) -> LocalHandler:
    """The handler that a decorated function, or an object of the user's own class, is.

    Raises TypeError for anything else.
    """
    if isinstance(thing, LocalHandler):
        return thing
    found = getattr(thing, "__dict__", {}).get(_MARK)
    if not isinstance(found, LocalHandler):
        raise TypeError(
            f"{thing!r} is no tool: decorate it with @tool, or derive from LocalHandler"
        )
    return found


def _output(result: Any, max_tokens: int) -> ToolOutput:
    if isinstance(result, ToolOutput):
        return result
    if isinstance(result, list):
        parts = cast("list[Any]", result)
        if parts and all(isinstance(part, Part) for part in parts):
            return ToolOutput(content=parts)
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return ToolOutput(content=shortened(text, max_tokens))
