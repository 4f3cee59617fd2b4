"""What a call is made with: a function's parameters as a struct, and its JSON schema for the model."""

import inspect
from collections.abc import Callable
from typing import Any, Final, cast, get_type_hints

import msgspec
from msgspec import Raw

_DEFS: Final = "#/$defs/"
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def schema_of(type_: type[msgspec.Struct]) -> Raw:
    """The struct's own object at the top, types that it uses below `$defs`.

    Raises TypeError for a type that JSON cannot say.
    """
    (top,), components = msgspec.json.schema_components([type_], ref_template=_DEFS + "{name}")
    name = str(top["$ref"]).removeprefix(_DEFS)
    schema = {key: value for key, value in components[name].items() if key != "title"}
    if not _refers(components, _DEFS + name):
        components = {key: value for key, value in components.items() if key != name}
    if components:
        schema["$defs"] = components
    return Raw(msgspec.json.encode(schema))


def _refers(node: Any, ref: str) -> bool:
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        return members.get("$ref") == ref or any(_refers(child, ref) for child in members.values())
    if isinstance(node, list):
        return any(_refers(child, ref) for child in cast("list[Any]", node))
    return False


def arguments_of(function: Callable[..., Any]) -> type[msgspec.Struct]:
    """Its parameters, by their annotations.

    Raises TypeError for one that the model could not give, or could not be told of.
    """
    name = function.__name__
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _NAMED:
            raise TypeError(f"{name}: the model cannot give '{parameter}' by its name")
        if parameter.name not in hints:
            raise TypeError(f"{name}: the parameter '{parameter.name}' has no annotation")
        field = (parameter.name, hints[parameter.name])
        with_default = parameter.default is not inspect.Parameter.empty
        fields.append((*field, parameter.default) if with_default else field)
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
