"""Values built for a schema are valid, as jsonschema sees it; the own check agrees with it."""

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.testing.demo.plan import arguments_for
from bascule.testing.demo.schema.build import Builder, UnsatisfiableError
from bascule.testing.demo.schema.check import valid
from bascule.testing.demo.schema.pattern import example
from bascule.testing.demo.suggest import RequestSuggestions

REQUEST = (
    'Book 3 nights in Paris for "Ann Lee" from 2026-03-04, mail ann@example.com, '
    "see https://example.com/x and notes.txt, about -7.5 and 2+2"
)


def object_of(required: Any = None, /, **properties: Any) -> dict[str, Any]:
    wanted = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": wanted,
        "additionalProperties": False,
    }


TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["name", "children"],
}
LINKED = {
    "$defs": {
        "node": object_of(
            value={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}
        )
    },
    "$ref": "#/$defs/node",
}

SCHEMAS: dict[str, Any] = {
    "empty": {},
    "no properties": {"type": "object"},
    "strings": object_of(a={"type": "string"}, b={"type": "string", "minLength": 40}),
    "short strings": object_of(city={"type": "string", "maxLength": 2}),
    "numbers": object_of(
        a={"type": "integer", "minimum": 10, "maximum": 12},
        b={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
        c={"type": "integer", "multipleOf": 7, "minimum": 100},
        d={"type": "integer", "maximum": -5},
        e={"type": "number", "multipleOf": 0.25, "minimum": 1.1},
    ),
    "enum": object_of(unit={"type": "string", "enum": ["c", "f"]}, n={"enum": [3, None, "x"]}),
    "const": object_of(kind={"const": "x"}, n={"const": None}, o={"const": {"a": [1]}}),
    "default": object_of(
        n={"type": "integer", "default": 42}, bad={"type": "string", "default": 3}
    ),
    "patterns": object_of(
        code={"type": "string", "pattern": r"^[A-Z]{3}-\d{4}$"},
        phone={"type": "string", "pattern": r"^\+?[1-9]\d{1,14}$"},
        slug={"type": "string", "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$", "minLength": 8},
        either={"type": "string", "pattern": "^(yes|no)$"},
    ),
    "formats": object_of(
        **{
            f"a {name}": {"type": "string", "format": name}
            for name in (
                "date",
                "date-time",
                "time",
                "email",
                "uri",
                "uuid",
                "ipv4",
                "ipv6",
                "hostname",
            )
        }
    ),
    "nested": object_of(
        place=object_of(
            city={"type": "string"},
            geo=object_of(lat={"type": "number", "minimum": -90, "maximum": 90}),
        )
    ),
    "arrays": object_of(
        tags={"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
        pair={
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "minItems": 2,
            "maxItems": 2,
        },
        numbers={"type": "array", "items": {"type": "integer", "minimum": 5}, "minItems": 1},
        objects={"type": "array", "items": object_of(x={"type": "boolean"}), "minItems": 2},
        has={"type": "array", "contains": {"const": 7}},
        distinct={
            "type": "array",
            "items": {"enum": [1, 2, 3]},
            "minItems": 3,
            "uniqueItems": True,
        },
    ),
    "anyOf": object_of(a={"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 9}]}),
    "oneOf": object_of(
        shape={
            "oneOf": [
                object_of(kind={"const": "circle"}, radius={"type": "number"}),
                object_of(kind={"const": "square"}, side={"type": "number"}),
            ]
        },
        number={
            "oneOf": [{"type": "number", "multipleOf": 5}, {"type": "number", "multipleOf": 3}]
        },
    ),
    "allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer", "minimum": 3}}, "required": ["b"]},
        ]
    },
    "not": object_of(a={"type": "string", "not": {"enum": ["a", "demo"]}}),
    "if then": {
        "type": "object",
        "properties": {"kind": {"enum": ["x", "y"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "x"}}},
        "then": {"required": ["size"], "properties": {"size": {"type": "integer"}}},
    },
    "dependent": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
    },
    "free keys": {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "minProperties": 2,
    },
    "pattern keys": {
        "type": "object",
        "patternProperties": {"^x-": {"type": "boolean"}},
        "additionalProperties": False,
        "minProperties": 1,
    },
    "type list": object_of(a={"type": ["null", "integer"]}, b={"type": ["string", "null"]}),
    "no types": object_of(a={}, b={"minimum": 4}, c={"properties": {"x": {"const": 1}}}, d=True),
    "recursion": TREE,
    "recursion through anyOf": LINKED,
    "refs": {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A~1b"}, "c": {"$ref": "#/$defs/list/anyOf/0"}},
        "required": ["a", "c"],
        "definitions": {"A/b": {"type": "integer", "minimum": 2}},
        "$defs": {"list": {"anyOf": [{"type": "string", "enum": ["z"]}, True]}},
    },
    "booleans": object_of(force={"type": "boolean"}, deep={"type": "boolean", "const": True}),
    "optional all": object_of([], a={"type": "string"}, b={"type": "integer"}),
    "strict optional": object_of(a={"type": ["string", "null"]}, city={"type": ["string", "null"]}),
}


@pytest.mark.parametrize("case", SCHEMAS)
@pytest.mark.parametrize("text", ["", "hello", REQUEST])
def test_arguments_are_valid(case: str, text: str) -> None:
    schema = SCHEMAS[case]
    arguments = arguments_for(schema, text, text)
    jsonschema.Draft202012Validator(schema).validate(arguments)
    assert valid(arguments, schema, schema)
    assert arguments == arguments_for(schema, text, text)


def test_what_cannot_be_met_gives_no_arguments() -> None:
    endless = {"$defs": {"n": object_of(n={"$ref": "#/$defs/n"})}, "$ref": "#/$defs/n"}
    for schema in (endless, object_of(a=False), object_of(a={"type": "string", "enum": []})):
        assert arguments_for(schema, REQUEST, REQUEST) == {}
    assert arguments_for({"$ref": "https://elsewhere.example/schema"}, "", "") == {}


BOUNDS = st.integers(-50, 50)
LEAVES = st.one_of(
    st.just({}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(
        lambda low, span, kind: {"type": kind, "minimum": low, "maximum": low + span},
        BOUNDS,
        st.integers(0, 30),
        st.sampled_from(["integer", "number"]),
    ),
    st.builds(lambda step, low: {"type": "integer", "multipleOf": step, "minimum": low},
              st.integers(1, 9), BOUNDS),
    st.builds(lambda low, span: {"type": "string", "minLength": low, "maxLength": low + span},
              st.integers(0, 20), st.integers(0, 20)),
    st.lists(st.one_of(st.text(max_size=5), BOUNDS, st.none(), st.booleans()), min_size=1, max_size=4)
    .map(lambda members: {"enum": members}),
    st.sampled_from(["date", "email", "uri", "uuid", "date-time"])
    .map(lambda name: {"type": "string", "format": name}),
    st.sampled_from([r"^\d{3}$", r"^[A-Z]+_[a-z]{2,3}$", r"(a|b)c?", r"^v\d+\.\d+$"])
    .map(lambda pattern: {"type": "string", "pattern": pattern}),
)  # fmt: skip
NAMES = st.sampled_from(
    ["city", "n", "url", "count", "from", "to", "query", "path", "date", "name"]
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(NAMES, inner, max_size=4)
    objects = st.builds(
        lambda parts, closed, count: {
            "type": "object",
            "properties": parts,
            "required": sorted(parts)[:count],
            **({"additionalProperties": False} if closed else {}),
        },
        properties,
        st.booleans(),
        st.integers(0, 4),
    )
    arrays = st.builds(
        lambda items, low, span: {
            "type": "array", "items": items, "minItems": low, "maxItems": low + span,
        },
        inner,
        st.integers(0, 3),
        st.integers(0, 3),
    )  # fmt: skip
    unions = st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts})
    both = st.builds(lambda a, b: {"allOf": [a, {"anyOf": [a, b]}]}, inner, inner)
    return st.one_of(objects, arrays, unions, both)


@settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.recursive(LEAVES, containers, max_leaves=8), st.sampled_from(["", "go", REQUEST]))
def test_any_schema(schema: Any, text: str) -> None:
    built = Builder(schema, RequestSuggestions(text, text)).build(schema)
    jsonschema.Draft202012Validator(schema).validate(built)


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), BOUNDS, st.floats(-9, 9).map(lambda x: round(x, 2)),
              st.sampled_from(["", "a", "123", "2026-01-01", "Aa_bc"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.recursive(LEAVES, containers, max_leaves=6), ANYTHING)
def test_the_check_agrees_with_jsonschema(schema: Any, value: Any) -> None:
    checker = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    if "format" not in str(schema):
        assert valid(value, schema, schema) == checker.is_valid(value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^[^a-z]+$", "A"),
        (r"^\d{2,}$", "00"),
        (r"a*b?c+", "c"),
        (r"^(?:ab){2}$", "abab"),
        (r"^x{2}|y$", "xx"),
        (r"[\]\-]", "-"),
        (r"^.\.$", "a."),
        (r"(?=x)x", None),
        (r"(a)\1", None),
        (r"[", None),
        (r"(", None),
        (r"[^\s\S]", None),
    ],
)
def test_strings_for_patterns(pattern: str, text: str | None) -> None:
    assert example(pattern) == text


def test_nothing_valid_raises() -> None:
    suggestions = RequestSuggestions("", "")
    with pytest.raises(UnsatisfiableError):
        Builder(False, suggestions).build(False)
    with pytest.raises(UnsatisfiableError, match="no value found"):
        Builder({}, suggestions).build({"type": "integer", "minimum": 3, "maximum": 2})
