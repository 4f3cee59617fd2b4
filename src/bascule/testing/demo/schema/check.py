"""Whether a value is valid for a schema."""

import math
import re
from typing import Any, cast

from bascule.testing.demo.schema.formats import fits
from bascule.testing.demo.schema.resolve import Schema, follow
from bascule.testing.steps import Json

_DEPTH = 64


def valid(value: Any, schema: Schema, root: Schema, depth: int = 0) -> bool:
    """Whether the value is valid. Unknown keywords and foreign references are taken as satisfied."""
    if isinstance(schema, bool):
        return schema
    if depth > _DEPTH:
        return True
    return all(
        check(value, schema, root, depth + 1)
        for check in (_reference, _equality, _type, _combined, _conditional, _by_type)
    )


def type_of(value: Any) -> str:
    """The JSON type; a whole number is an `integer` whatever its Python type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def same(first: Any, second: Any) -> bool:
    """Equality as JSON has it: `true` is not 1."""
    return first == second and (isinstance(first, bool) == isinstance(second, bool))


def _reference(value: Any, schema: Json, root: Schema, depth: int) -> bool:
    return "$ref" not in schema or valid(value, follow(str(schema["$ref"]), root), root, depth)


def _equality(value: Any, schema: Json, root: Schema, depth: int) -> bool:
    if "const" in schema and not same(value, schema["const"]):
        return False
    return "enum" not in schema or any(same(value, member) for member in schema["enum"])


def _type(value: Any, schema: Json, root: Schema, depth: int) -> bool:
    wanted: Any = schema.get("type")
    if wanted is None:
        return True
    names: list[str] = [wanted] if isinstance(wanted, str) else wanted
    actual = type_of(value)
    return actual in names or (actual == "integer" and "number" in names)


def _combined(value: Any, schema: Json, root: Schema, depth: int) -> bool:
    def holds(part: Schema) -> bool:
        return valid(value, part, root, depth)

    if not all(map(holds, schema.get("allOf", ()))):
        return False
    if "anyOf" in schema and not any(map(holds, schema["anyOf"])):
        return False
    if "oneOf" in schema and sum(map(holds, schema["oneOf"])) != 1:
        return False
    return "not" not in schema or not holds(schema["not"])


def _conditional(value: Any, schema: Json, root: Schema, depth: int) -> bool:
    if "if" not in schema:
        return True
    branch = "then" if valid(value, schema["if"], root, depth) else "else"
    return valid(value, schema.get(branch, True), root, depth)


def _by_type(value: Any, schema: Json, root: Schema, depth: int) -> bool:
    match value:
        case bool() | None:
            return True
        case int() | float():
            return _number(value, schema)
        case str():
            return _string(value, schema)
        case list():
            return _array(cast("list[Any]", value), schema, root, depth)
        case _:
            return _object(cast("Json", value), schema, root, depth)


def _number(value: float, schema: Json) -> bool:
    step = schema.get("multipleOf")
    return (
        value >= schema.get("minimum", -math.inf)
        and value <= schema.get("maximum", math.inf)
        and value > schema.get("exclusiveMinimum", -math.inf)
        and value < schema.get("exclusiveMaximum", math.inf)
        and (not step or math.isclose(value / step, round(value / step), abs_tol=1e-9))
    )


def _string(value: str, schema: Json) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf):
        return False
    return _matches(schema.get("pattern"), value) and fits(value, schema.get("format"))


def _matches(pattern: str | None, value: str) -> bool:
    try:
        return pattern is None or re.search(pattern, value) is not None
    except re.error:
        return True


def _array(value: list[Any], schema: Json, root: Schema, depth: int) -> bool:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
        return False
    if schema.get("uniqueItems") and any(
        same(a, b) for n, a in enumerate(value) for b in value[:n]
    ):
        return False
    prefix: list[Schema] = schema.get("prefixItems", [])
    items: Schema = schema.get("items", True)
    schemas = [*prefix, *(items for _ in value[len(prefix) :])]
    if not all(valid(v, s, root, depth) for v, s in zip(value, schemas, strict=False)):
        return False
    if "contains" not in schema:
        return True
    hits = sum(valid(entry, schema["contains"], root, depth) for entry in value)
    return schema.get("minContains", 1) <= hits <= schema.get("maxContains", math.inf)


def _object(value: Json, schema: Json, root: Schema, depth: int) -> bool:
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", math.inf):
        return False
    needed = list(schema.get("required", ()))
    for name, more in schema.get("dependentRequired", {}).items():
        needed += more if name in value else ()
    if any(name not in value for name in needed):
        return False
    names: Schema = schema.get("propertyNames", True)
    return all(
        valid(name, names, root, depth) and _property(name, entry, schema, root, depth)
        for name, entry in value.items()
    )


def _property(name: str, value: Any, schema: Json, root: Schema, depth: int) -> bool:
    known: list[Schema] = []
    if name in schema.get("properties", {}):
        known.append(schema["properties"][name])
    known += [s for p, s in schema.get("patternProperties", {}).items() if _matches(p, name)]
    return all(
        valid(value, part, root, depth)
        for part in known or [schema.get("additionalProperties", True)]
    )
