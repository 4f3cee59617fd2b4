"""Filters of a search by the attributes of files, as they are declared."""

from typing import Any, Final, Literal

import msgspec

from bascule.protocols.errors import invalid

_GROUPS: Final = ("and", "or")
_LISTS: Final = ("in", "nin")
_ORDERED: Final = ("gt", "gte", "lt", "lte")

Value = str | float | bool


class Filter(msgspec.Struct):
    """A comparison (`key`, `value`), or a group of `filters`; `type` says which."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "and", "or"]
    key: str | None = None
    value: Value | list[str | float] | None = None
    filters: "list[Filter] | None" = None


def check_filter(one: Filter, param: str) -> None:
    """Raises ApiError 400 that names what is missing, or what another kind of filter has."""
    if one.type in _GROUPS:
        if one.filters is None:
            raise _missing(f"{param}.filters")
        if not one.filters:
            place = f"{param}.filters"
            raise invalid(f"'{place}' is empty.", place, "empty_array")
        for i, member in enumerate(one.filters):
            check_filter(member, f"{param}.filters[{i}]")
        return
    if one.key is None:
        raise _missing(f"{param}.key")
    if one.value is None:
        raise _missing(f"{param}.value")
    _check_value(one.type, one.value, f"{param}.value")


def _check_value(kind: str, value: Any, param: str) -> None:
    is_list = isinstance(value, list)
    if is_list != (kind in _LISTS):
        wanted = "a list" if kind in _LISTS else "a string, a number or a boolean"
        raise invalid(
            f"Invalid type for '{param}': '{kind}' takes {wanted}.", param, "invalid_type"
        )
    if kind in _ORDERED and isinstance(value, bool):
        raise invalid(
            f"Invalid type for '{param}': '{kind}' takes a number or a string.",
            param,
            "invalid_type",
        )


def _missing(place: str) -> Exception:
    return invalid(f"Missing required parameter: '{place}'.", place, "missing_required_parameter")
