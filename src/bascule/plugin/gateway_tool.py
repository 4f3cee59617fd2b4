"""`GatewayTool`: a tool type of somebody else's, which the gateway runs."""

import hashlib
import inspect
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Raw

from bascule.plugin.call_item import CallProjection, CallView
from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Flat, FunctionCall, FunctionCallOutput, Item, Part
from bascule.toolkit.executor import ExecutionContext, ToolExecutor
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.options import ToolOptions
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.ownership import Ownership, gateway
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.toolkit.signature import schema_of
from bascule.tools.function import check_output

TYPE: Final = re.compile(r"[a-z0-9][a-z0-9_-]*:[a-z][a-z0-9_]*")
"""`slug:name`, as Open Responses R58 has it."""


class ToolError(Exception):
    """A call that ended badly, for a reason that the model and the client are told. Of any other
    exception they hear the class alone."""

    def __init__(self, message: str, code: str = "tool_error") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Declaration(msgspec.Struct):
    """What a client may say of the tool beside its type: the fields of a subclass."""

    type: str


_Structs = type[msgspec.Struct]
_Declarations = type[Declaration]
A = TypeVar("A")
O = TypeVar("O", bound=ToolOptions)  # noqa: E741 -- arguments, options, declaration
D = TypeVar("D", bound=Declaration)


class GatewayTool(ToolHandler[D], Generic[A, O, D]):
    """A subclass says its `type`, and `run`. Its three parameters are structs: the arguments of a call,
    the options of `[tools."slug:name"]`, and a client's declaration.

    There is one object of a class in a gateway, made before anything is served.
    """

    type: ClassVar[str]
    """`slug:name`: its slug is yours, such as your company's name."""
    description: ClassVar[str]
    """For the model; by default the class's docstring."""
    timeout: ClassVar[float] = 60.0
    """Seconds a call may take, unless the operator says otherwise."""
    parallel: ClassVar[bool] = False
    """Whether calls of one turn may overlap, unless the operator says otherwise."""

    ours: ClassVar[bool] = True
    arguments: ClassVar[_Structs]
    declaration: ClassVar[_Declarations] = Declaration
    _parameters: ClassVar[Raw]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for base in cast("tuple[Any, ...]", cls.__dict__.get("__orig_bases__", ())):
            if get_origin(base) is GatewayTool:
                _take_types(cls, *get_args(base))
        if "type" in cls.__dict__:
            _complete(cls)

    def __init__(self, options: O) -> None:
        """Runs outside of an event loop when a configuration is only checked. Whatever it raises
        stops the start; a ConfigError does so in its own words."""
        self.options = options
        self._executor = _Executor(self)
        self._decode = json.decoder(self.arguments)
        self._declared = json.decoder(self.declaration)

    @abstractmethod
    async def run(self, arguments: A, declared: D, context: ExecutionContext) -> Any:
        """One call: a text, a list of parts, or anything that JSON can say. It must not block the
        event loop. Raises ToolError with a message for the model."""

    # --- the handler

    def parse(self, declaration: Raw, param: str) -> D:
        declared = json.field(self._declared, declaration, param)
        known = {f.encode_name for f in msgspec.structs.fields(self.declaration)}
        for name in json.envelope(bytes(declaration)):
            if name not in known:
                place = f"{param}.{name}"
                raise invalid(f"Unknown parameter: '{place}'.", place, "unknown_parameter")
        return cast("D", declared)

    def normalize(self, params: D) -> Sequence[Tool]:
        return [Tool(self.identity, self.description, self._parameters)]

    @property
    def identity(self) -> Identity:
        """The model's function is `slug__name`."""
        slug, _, name = self.type.partition(":")
        return Identity(slug, name, self.type)

    def owner(self, params: D, identity: Identity) -> Ownership:
        return gateway(self._executor, params, self.options)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        """The call and its output, as the model would have made and read them."""
        view = item.view(CallView, param)
        if isinstance(view.output, list):
            check_output(view.output, f"{param}.output")
        if view.status == "incomplete":
            return ()  # no model could make sense of half a call
        call_id = item.id or f"call_{hashlib.sha256(item.raw).hexdigest()[:24]}"
        wire = names.assign(self.identity)
        return [
            FunctionCall(call_id, wire, view.arguments),
            FunctionCallOutput(call_id, _said(view)),
        ]

    # --- the executor

    async def execute(self, call: Call, declared: D, context: ExecutionContext) -> Outcome:
        """Decode the arguments, run, and make an outcome of what comes."""
        try:
            arguments = self._decode(call.arguments.encode())
        except msgspec.DecodeError as e:
            message = f"The arguments do not fit the tool's parameters: {e}."
            return Failed(message=message, code="invalid_arguments")
        try:
            result: Any = await self.run(cast("A", arguments), declared, context)
        except ToolError as e:
            return Failed(message=e.message, code=e.code)
        except SystemExit as e:
            raise RuntimeError("a tool wanted to end the process") from e
        return _outcome(result)


class _Executor(ToolExecutor[D]):
    """What the scheduler sees of a tool."""

    def __init__(self, tool: GatewayTool[Any, Any, D]) -> None:
        self._tool = tool
        self.policy = "parallel" if tool.parallel else "per_name"
        self.timeout = tool.timeout

    async def execute(self, call: Call, params: D, context: ExecutionContext) -> Outcome:
        return await self._tool.execute(call, params, context)

    def project(
        self, writer: ItemWriter, call: Call, identity: Identity, params: D
    ) -> Projection | None:
        return CallProjection(writer, call, self._tool.type)


def _take_types(
    cls: type[GatewayTool[Any, Any, Any]], arguments: Any, options: Any, declaration: Any
) -> None:
    """From the parameters of `GatewayTool[...]`; Any and type variables are left to a subclass."""
    if isinstance(arguments, type) and arguments is not Any:
        if not issubclass(arguments, msgspec.Struct):
            raise TypeError(f"{cls.__name__}: the arguments must be a msgspec.Struct")
        cls.arguments = arguments
    if isinstance(options, type):
        cls.option_type = options
    if isinstance(declaration, type):
        cls.declaration = declaration


def _complete(cls: type[GatewayTool[Any, Any, Any]]) -> None:
    """What follows from the type. Raises TypeError for a class that is not whole."""
    if not TYPE.fullmatch(cls.type):
        raise TypeError(f"{cls.__name__}: the type '{cls.type}' is not of the form slug:name")
    if not inspect.iscoroutinefunction(cls.run):
        raise TypeError(f"{cls.__name__}.run must be an async function")
    if not hasattr(cls, "arguments") or cls.option_type is None:
        raise TypeError(f"{cls.__name__}: say GatewayTool[Arguments, ToolOptions, Declaration]")
    if "description" not in cls.__dict__:
        if not cls.__doc__:
            raise TypeError(f"{cls.__name__}: the model needs a description or a docstring")
        cls.description = inspect.cleandoc(cls.__doc__)
    if not cls.timeout > 0:
        raise TypeError(f"{cls.__name__}: a timeout is more than 0 seconds")
    cls.types = frozenset({cls.type})
    cls.item_types = frozenset({f"{cls.type}_call"})
    cls._parameters = schema_of(cls.arguments)  # pyright: ignore[reportPrivateUsage] -- its own


def _outcome(result: Any) -> Outcome:
    if isinstance(result, (str, Output, Failed)):
        return Output(output=result) if isinstance(result, str) else result
    if isinstance(result, list):
        parts = cast("list[Any]", result)
        if parts and all(isinstance(part, Part) for part in parts):
            return Output(output=parts)
    return Output(output=json.encode(result).decode())


def _said(view: CallView) -> str | list[Part]:
    if view.error is not None:
        return json.encode({"error": view.error.message}).decode()
    if view.output is not None:
        return view.output
    status = view.status or "unknown"
    return f"What the call gave is not a part of this history: its status is {status}."
