"""Arguments of calls: checked against the tool's schema, and repaired where a model broke their JSON."""

from collections.abc import Iterable
from typing import Any, Final, cast

import json_repair
import jsonschema_rs
import msgspec
import structlog

from bascule.protocols import json
from bascule.protocols.function import FunctionSpec

_MAX_REPAIRED: Final = 64 * 1024
"""Characters. The repair takes time in proportion, and everybody waits for it."""
_MAX_SHOWN: Final = 300
"""Characters of a validator's message, which repeats what it found."""
_REGEX: Final = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=100_000, size_limit=1024 * 1024, dfa_size_limit=1024 * 1024
)

_log = structlog.stdlib.get_logger("bascule.tools")


class ArgumentsSchema:
    """One function's schema. Arguments are a JSON object in any case."""

    def __init__(self, spec: FunctionSpec) -> None:
        """A schema that is none, or that refers to other places, checks nothing more than that."""
        self._validator = _validator(spec)

    def fault(self, arguments: str) -> str | None:
        """What is wrong with a call's arguments, and where, in words for the model."""
        try:
            value: Any = msgspec.json.decode(arguments)
        except msgspec.DecodeError as e:
            return f"The arguments are not valid JSON: {e}."
        except RecursionError:
            return "The arguments are nested too deeply."
        return self._fault(value)

    def _fault(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return "The arguments must be a JSON object."
        if self._validator is None:
            return None
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as e:
            if _gave_up(e):
                return None
            return f"The arguments do not fit the tool's parameters at {_place(e)}: {_shown(e)}"
        return None

    def repaired(self, arguments: str) -> str | None:
        """Arguments that are no JSON, as the JSON object that was meant; None if there is none that
        fits the schema, or they are valid JSON."""
        if len(arguments) > _MAX_REPAIRED or _is_json(arguments):
            return None
        try:
            value = cast("Any", json_repair.loads(arguments, skip_json_loads=True))
            text = json.encode(value).decode()
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return None
        return text if self._fault(value) is None else None


class ArgumentSchemas:
    """The schemas of a plan's functions, each compiled when a call of it first asks."""

    def __init__(self, functions: Iterable[FunctionSpec]) -> None:
        self._specs = {spec.name: spec for spec in functions}
        self._compiled: dict[str, ArgumentsSchema] = {}

    def of(self, wire: str) -> ArgumentsSchema | None:
        """None for a name that is not declared."""
        found = self._compiled.get(wire)
        if found is None and wire in self._specs:
            found = self._compiled[wire] = ArgumentsSchema(self._specs[wire])
        return found


def _validator(spec: FunctionSpec) -> jsonschema_rs.Validator | None:
    if not bytes(spec.parameters):
        return None
    try:
        schema: Any = msgspec.json.decode(spec.parameters)
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_REGEX)
    except (ValueError, RecursionError) as e:
        # The client's own words are not for the log, names neither.
        _log.warning("calls of a tool are not checked: no valid schema", fault=type(e).__name__)
        return None


def _gave_up(error: jsonschema_rs.ValidationError) -> bool:
    """The validator could not tell: a pattern took it too many steps."""
    kinds = jsonschema_rs.ValidationErrorKind
    return isinstance(error.kind, kinds.BacktrackLimitExceeded | kinds.RegexEngineFailure)


def _place(error: jsonschema_rs.ValidationError) -> str:
    path = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path
    )
    return f"${path}"


def _shown(error: jsonschema_rs.ValidationError) -> str:
    text = error.message
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
