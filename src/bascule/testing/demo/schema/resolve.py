"""References and `allOf`, folded into one flat schema."""

from typing import Any, TypeAlias, cast
from urllib.parse import unquote

from bascule.testing.steps import Json

Schema: TypeAlias = Json | bool

_LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def follow(reference: str, root: Schema) -> Schema:
    """What a local reference (`#`, `#/$defs/x`) points to; True for any other."""
    if not reference.startswith("#"):
        return True
    node: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            items = cast("list[Any]", node)
            node = items[int(key)] if key.isdigit() and int(key) < len(items) else True
        elif isinstance(node, dict):
            node = cast("Json", node).get(key, True)
        else:
            return True
    return cast("Schema", node) if isinstance(node, dict | bool) else True


def flat(schema: Schema, root: Schema, depth: int = 0) -> Schema:
    """The schema without `$ref` and `allOf`, which are merged into it."""
    if isinstance(schema, bool) or depth > 32 or not ("$ref" in schema or "allOf" in schema):
        return schema
    parts: list[Schema] = [(schema.get("$ref") and follow(str(schema["$ref"]), root)) or True]
    parts += schema.get("allOf") or []
    merged: Schema = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
    for part in parts:
        merged = merge(merged, flat(part, root, depth + 1))
    return merged


def merge(first: Schema, second: Schema) -> Schema:
    """A schema that is as strict as both, as far as keywords can be joined."""
    if isinstance(first, bool) or isinstance(second, bool):
        if first is False or second is False:
            return False
        return second if first is True else first
    merged = dict(first)
    for key, value in second.items():
        merged[key] = _joined(key, merged[key], value) if key in merged else value
    return merged


def _joined(key: str, ours: Any, theirs: Any) -> Any:
    if ours == theirs:
        return ours
    match key:
        case "properties" | "$defs" | "definitions" | "patternProperties":
            return {
                name: merge(ours[name], theirs[name])
                if name in ours and name in theirs
                else (ours.get(name, theirs.get(name)))
                for name in {**ours, **theirs}
            }
        case "required":
            return [*ours, *(name for name in theirs if name not in ours)]
        case "enum":
            return [value for value in ours if value in theirs]
        case "type":
            return _types(ours, theirs)
        case "items" | "additionalProperties":
            return merge(ours, theirs)
        case _ if key in _LARGER:
            return max(ours, theirs)
        case _ if key in _SMALLER:
            return min(ours, theirs)
        case _:
            return theirs


def _types(ours: Any, theirs: Any) -> Any:
    first = [ours] if isinstance(ours, str) else ours
    second = [theirs] if isinstance(theirs, str) else theirs
    both = [name for name in first if name in second]
    if not both and "integer" in (*first, *second) and "number" in (*first, *second):
        return "integer"
    return both[0] if len(both) == 1 else both
