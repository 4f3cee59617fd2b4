"""What a call is made with: a struct's JSON schema, as the model is told of it."""

from typing import Any, Final, cast

import msgspec
from msgspec import Raw

_DEFS: Final = "#/$defs/"


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
