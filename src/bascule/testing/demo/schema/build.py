"""Making a value that is valid for a schema, out of suggestions where they fit."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Protocol, cast

from bascule.testing.demo.schema.check import same, type_of, valid
from bascule.testing.demo.schema.formats import sample
from bascule.testing.demo.schema.pattern import example
from bascule.testing.demo.schema.resolve import Schema, flat, merge
from bascule.testing.steps import Json

_DEPTH = 12
_OPTIONAL_DEPTH = 4
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


class UnsatisfiableError(ValueError):
    """No value was found for the schema."""


class Suggestions(Protocol):
    """Where values come from that mean something."""

    def values(self, name: str, schema: Json, required: bool) -> Iterable[Any]:
        """Values for the property of this name, best first; for an optional one only sure ones."""
        ...

    def many(self, name: str, schema: Json) -> Iterable[Any]:
        """All values for the entries of an array of this name."""
        ...

    def used(self, name: str, value: Any) -> None:
        """The suggested value was taken."""
        ...


class Builder:
    """Builds values for the parts of one root schema."""

    def __init__(self, root: Schema, suggestions: Suggestions) -> None:
        self._root = root
        self._suggestions = suggestions

    def build(self, schema: Schema, name: str = "", required: bool = True, depth: int = 0) -> Any:
        """A valid value. Raises `UnsatisfiableError` when none is found."""
        schema = flat(schema, self._root)
        if schema is False:
            self._fail("nothing is valid for `false`")
        if isinstance(schema, bool):
            schema = {}
        if depth > _DEPTH:
            self._fail("the schema requires itself without end")
        for value in self._candidates(schema, name, required, depth):
            if valid(value, schema, self._root):
                return value
        return self._fail(f"no value found for {name or 'the schema'}")

    def _fail(self, why: str) -> NoReturn:
        raise UnsatisfiableError(why)

    def _candidates(self, schema: Json, name: str, required: bool, depth: int) -> Iterator[Any]:
        if "const" in schema:
            yield schema["const"]
            return
        yield from self._suggested(schema, name, required)
        if "default" in schema:
            yield schema["default"]
        yield from schema.get("enum", ())
        yield from schema.get("examples", ())
        yield from self._branches(schema, name, required, depth)
        for kind in _kinds(schema):
            try:
                yield from self._of_type(kind, schema, name, depth)
            except UnsatisfiableError:
                continue

    def _suggested(self, schema: Json, name: str, required: bool) -> Iterator[Any]:
        if not name:
            return
        kinds = _kinds(schema) if "type" in schema else _kinds_of_branches(schema)
        for raw in self._suggestions.values(name, schema, required):
            for value in _coerced(raw, kinds):
                if valid(value, schema, self._root):
                    self._suggestions.used(name, raw)
                    yield value

    def _branches(self, schema: Json, name: str, required: bool, depth: int) -> Iterator[Any]:
        branches: list[Schema] = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        if "if" in schema:
            then: Schema = schema.get("then", True)
            otherwise: Schema = schema.get("else", True)
            branches += [merge(schema["if"], then), otherwise]
        base = {
            k: v for k, v in schema.items() if k not in ("anyOf", "oneOf", "if", "then", "else")
        }
        for branch in sorted(branches, key=_is_null):
            try:
                yield self.build(merge(base, flat(branch, self._root)), name, required, depth + 1)
            except UnsatisfiableError:
                continue

    def _of_type(self, kind: str, schema: Json, name: str, depth: int) -> Iterator[Any]:
        match kind:
            case "object":
                yield self._object(schema, depth)
            case "array":
                yield self._array(schema, name, depth)
            case "string":
                yield from _strings(schema, name)
            case "integer" | "number":
                yield from _numbers(schema, kind)
            case "boolean":
                yield from (False, True)
            case _:
                yield None

    def _object(self, schema: Json, depth: int) -> Json:
        properties: dict[str, Schema] = schema.get("properties", {})
        required = list(schema.get("required", ()))
        built: Json = {}
        for name, part in properties.items():
            if name in required:
                built[name] = self.build(part, name, True, depth + 1)
            elif depth < _OPTIONAL_DEPTH and (value := self._optional(name, part)) is not None:
                built[name] = value
        for trigger, more in schema.get("dependentRequired", {}).items():
            required += more if trigger in built else ()
        for name in required:
            if name not in built:
                other: Schema = schema.get("additionalProperties", True)
                part = properties.get(name, other)
                built[name] = self.build(part, name, True, depth + 1)
        self._fill_up(built, schema, properties, depth)
        return built

    def _optional(self, name: str, schema: Schema) -> Any:
        part = flat(schema, self._root)
        if isinstance(part, bool):
            return None
        wanted = next(self._suggested(part, name, False), None)
        if wanted is None and _takes_array(part):
            return self._suggested_array(part, name)
        return wanted

    def _suggested_array(self, schema: Json, name: str) -> list[Any] | None:
        items = flat(schema.get("items", True), self._root)
        if isinstance(items, bool):
            return None
        found = self._entries(items, name)
        return found if found and valid(found, schema, self._root) else None

    def _entries(self, items: Json, name: str) -> list[Any]:
        kinds = _kinds(items)
        coerced = [
            next((v for v in _coerced(raw, kinds) if valid(v, items, self._root)), None)
            for raw in self._suggestions.many(name, items)
        ]
        return _unique(value for value in coerced if value is not None)

    def _fill_up(
        self, built: Json, schema: Json, properties: dict[str, Schema], depth: int
    ) -> None:
        for name, part in properties.items():
            if len(built) >= schema.get("minProperties", 0):
                return
            if name not in built:
                built[name] = self.build(part, name, True, depth + 1)
        patterns = [example(pattern) or "key" for pattern in schema.get("patternProperties", {})]
        number = 0
        while len(built) < schema.get("minProperties", 0) and number < 100:
            name = patterns.pop() if patterns else f"key{number}"
            more = list(schema.get("patternProperties", {}).values())
            part = more[0] if more else schema.get("additionalProperties", True)
            built[name] = self.build(part, name, True, depth + 1)
            number += 1

    def _array(self, schema: Json, name: str, depth: int) -> list[Any]:
        least: int = schema.get("minItems", 0)
        prefix: list[Schema] = schema.get("prefixItems", [])
        items: Schema = flat(schema.get("items", True), self._root)
        built = [self.build(part, name, True, depth + 1) for part in prefix]
        if not isinstance(items, bool) and not prefix and name:
            found = self._entries(items, name)
            built += found[: schema.get("maxItems", len(found))]
        if "contains" in schema:
            count = schema.get("minContains", 1)
            built += [self.build(schema["contains"], name, True, depth + 1) for _ in range(count)]
        if not built and not least and depth < _OPTIONAL_DEPTH and not isinstance(items, bool):
            return built
        while len(built) < least:
            built.append(self._another(items, name, built, bool(schema.get("uniqueItems")), depth))
        return built

    def _another(self, items: Schema, name: str, built: list[Any], unique: bool, depth: int) -> Any:
        if not unique:
            return self.build(items, name, True, depth + 1)
        barred: Schema = {"not": {"enum": list(built)}} if built else True
        part = flat(items, self._root)
        if isinstance(part, dict) and "not" in part:
            barred = {"not": {"anyOf": [part["not"], {"enum": list(built)}]}}
        return self.build(merge(part, barred), name, True, depth + 1)


def _is_null(schema: Schema) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _takes_array(schema: Json) -> bool:
    return schema.get("type") == "array"


def _kinds(schema: Json) -> list[str]:
    wanted: Any = schema.get("type")
    if isinstance(wanted, str):
        return [wanted]
    if wanted is not None:
        return sorted(cast("list[str]", wanted), key=lambda kind: kind == "null")
    for key, kind in (
        ("properties", "object"),
        ("required", "object"),
        ("items", "array"),
        ("minItems", "array"),
        ("minimum", "number"),
        ("maximum", "number"),
        ("multipleOf", "number"),
    ):
        if key in schema:
            return [kind, *(other for other in _TYPES if other != kind)]
    return ["string", *(kind for kind in _TYPES if kind != "string")]


def _kinds_of_branches(schema: Json) -> list[str]:
    branches: list[Schema] = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    kinds = [kind for part in branches if isinstance(part, dict) for kind in _kinds(part)]
    return kinds or _kinds(schema)


def _coerced(raw: Any, kinds: list[str]) -> Iterator[Any]:
    """The suggestion as each of the types that it can be."""
    for kind in kinds:
        if type_of(raw) == kind:
            yield raw
        elif kind in ("integer", "number") and isinstance(raw, str):
            number = _parsed(raw)
            if number is not None:
                yield int(number) if number.is_integer() else number
        elif kind == "number" and type_of(raw) == "integer":
            yield raw
        elif kind == "array" and not isinstance(raw, list | dict):
            yield [raw]


def _parsed(text: str) -> float | None:
    try:
        number = float(text.replace(",", "").lstrip("#"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _unique(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(same(value, other) for other in found):
            found.append(value)
    return found


def _strings(schema: Json, name: str) -> Iterator[str]:
    least: int = schema.get("minLength", 0)
    formatted = sample(schema.get("format"))
    if formatted is not None:
        yield formatted
    if "pattern" in schema:
        written = example(schema["pattern"], least)
        if written is not None:
            yield written
            yield written.ljust(least, "a")
    plain = name.replace("_", " ") or "demo"
    if len(plain) < least:
        plain = (plain + " demo" * least)[:least]
    yield plain[: schema.get("maxLength", len(plain))]
    for number in range(1, 200):
        yield f"{plain[: max(0, schema.get('maxLength', 99) - len(str(number)))]}{number}"


def _numbers(schema: Json, kind: str) -> Iterator[float]:
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    step = schema.get("multipleOf") or 1
    near = min(max(1, low), high)
    yield from (_tidy(near, kind), 0)
    base = math.ceil(near / step) * step
    for number in range(201):
        yield _tidy(base + number * step, kind)
        yield _tidy(base - number * step, kind)
    if math.isfinite(low) and math.isfinite(high):
        yield from (_tidy(low + (high - low) * part / 8, "number") for part in range(9))


def _tidy(number: float, kind: str) -> float:
    if kind == "integer" or float(number).is_integer():
        return math.floor(number)
    return round(number, 12)
