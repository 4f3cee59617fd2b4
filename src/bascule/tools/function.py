"""`function`: the client's own function, sent as it is and handed back as it is called."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Part,
    Passed,
)
from bascule.protocols.responses.parts import check_part
from bascule.protocols.responses.request import ToolRef
from bascule.protocols.upstream import ModelSurface
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.tools.options import Callers, ignored_options, may_be_called


class Answer(msgspec.Struct):
    """What pairs a call with its output."""

    call_id: str


class FunctionParams(msgspec.Struct):
    """A declaration's fields; schemas keep their bytes."""

    name: str
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None
    output_schema: Raw = Raw()
    defer_loading: bool | None = None
    allowed_callers: Callers = None
    asynchronous: bool | None = msgspec.field(name="async", default=None)


_decode = json.decoder(FunctionParams)
_NULL = Raw(b"null")


class FunctionHandler(ToolHandler[FunctionParams]):
    """Never executed by the gateway."""

    types: ClassVar[frozenset[str]] = frozenset({"function"})
    item_types: ClassVar[frozenset[str]] = frozenset({"function_call", "function_call_output"})

    names_late: ClassVar[bool] = False

    def parse(self, declaration: Raw, param: str) -> FunctionParams:
        params = json.field(_decode, declaration, param)
        if not params.name:
            raise invalid(f"'{param}.name' is empty.", f"{param}.name", "empty_string")
        params.parameters = _schema(params.parameters, f"{param}.parameters")
        params.output_schema = _schema(params.output_schema, f"{param}.output_schema")
        return params

    def normalize(self, params: FunctionParams) -> Sequence[Tool]:
        identity = Identity(None, params.name, "function")
        ignored = ignored_options(params.allowed_callers)
        if bytes(params.output_schema):
            ignored.append("output_schema")
        return [
            Tool(
                identity,
                params.description,
                params.parameters,
                params.strict,
                offered=may_be_called(params.allowed_callers),
                deferred=bool(params.defer_loading),
                ignored=ignored,
                members={"async": True} if params.asynchronous else {},
            )
        ]

    def echo(self, declaration: Raw, params: FunctionParams) -> Raw:
        """With explicit nulls: Open Responses requires the keys, and OpenAI adds the last."""
        members = json.envelope(bytes(declaration))
        for name in ("description", "parameters", "strict", "output_schema"):
            members.setdefault(name, _NULL)
        return Raw(json.encode(members))

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        return Identity.of(ref.namespace, ref.name or "", "function") == identity

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "function_call_output":
            output = item.view(FunctionCallOutput, param)
            check_output(output.output, f"{param}.output")
            return [output]
        call = item.view(FunctionCall, param)
        wire = names.assign(known(Identity.of(call.namespace, call.name, "function"), names))
        if wire == call.name:
            return [call]
        return [FunctionCall(call.call_id, wire, call.arguments, asynchronous=call.asynchronous)]

    def forward(
        self, item: Item, names: Ledger, surface: ModelSurface, param: str
    ) -> Sequence[Flat]:
        """A call goes under the name that the server knows; of a namespace that it keeps itself, as it
        is."""
        data = item.unminted()
        if item.type == "function_call_output":
            if not surface.family:
                data = without(data, "caller", "name", "namespace")
            return [Passed(data, answers=item.view(Answer, param).call_id)]
        call = item.view(FunctionCall, param)
        awaited = None if call.asynchronous else call.call_id
        identity = Identity.of(call.namespace, call.name, "function")
        if surface.family and call.namespace is not None:
            return [Passed(data, call_id=awaited)]
        wire = names.assign(known(identity, names))
        if wire != call.name or call.namespace is not None:
            members = json.envelope(bytes(data))
            members.pop("namespace", None)
            data = Raw(json.encode({**members, "name": wire}))
        if not surface.family:
            data = without(data, "caller")
        return [Passed(data, call_id=awaited)]

    def is_late(self, item: Item, param: str) -> bool:
        """What a namespace of the tool's own name means hangs on what is declared."""
        if item.type != "function_call" or b'"namespace"' not in item.raw:
            return False
        call = item.view(FunctionCall, param)
        return call.namespace == call.name

    def answers(self, item: Item) -> str | None:
        if item.type != "function_call_output":
            return None
        return item.view(FunctionCallOutput).call_id


def known(identity: Identity, names: Ledger) -> Identity:
    """What a history means by a namespace of the tool's own name, which is how a deferred function comes
    back that was found: the function without it, unless there is such a namespace."""
    if identity.namespace == identity.name and names.wire(identity) is None:
        return identity._replace(namespace=None)
    return identity


def without(data: Raw, *names: str) -> Raw:
    """An item without members that a server would not know."""
    if not any(f'"{name}"'.encode() in bytes(data) for name in names):
        return data
    members = json.envelope(bytes(data))
    kept = {name: value for name, value in members.items() if name not in names}
    return data if len(kept) == len(members) else Raw(json.encode(kept))


def _schema(raw: Raw, place: str) -> Raw:
    """A JSON schema, empty if there is none. Raises ApiError 400 for what is no object."""
    schema = bytes(raw).lstrip()
    if not schema or schema == b"null":
        return Raw()
    if not schema.startswith(b"{"):
        raise invalid(f"'{place}' must be an object.", place, "invalid_type")
    return raw


_OUTPUT_PARTS = frozenset({"input_text", "input_image", "input_file", "output_text"})


def check_output(output: str | list[Part], param: str) -> None:
    """An output is a string or a list of text, images and files. Raises ApiError 400."""
    if isinstance(output, str):
        return
    for i, part in enumerate(output):
        if part.type not in _OUTPUT_PARTS:
            place = f"{param}[{i}].type"
            raise invalid(
                f"Invalid value for '{place}': '{part.type}' is not supported here.",
                place,
                "unsupported_value",
            )
        check_part(part, f"{param}[{i}]")
