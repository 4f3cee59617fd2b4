"""Descriptions of namespaces, for servers that want each to have one."""

from typing import Any, cast

import msgspec
from msgspec import Raw

from bascule.protocols import json


def lacks(data: bytes | Raw) -> bool:
    """Whether a namespace without a description may be in there."""
    return b'"namespace"' in bytes(data)


def described(data: Raw) -> Raw:
    """A declaration, or an item that has some, of whose namespaces each has a description; the same
    bytes where nothing is missing."""
    if not lacks(data):
        return data
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return data
    return Raw(json.encode(value)) if _fill(value) else data


def _fill(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, Any]", value)
    tools = members.get("tools")
    if not isinstance(tools, list):
        return False
    if members.get("type") == "namespace":
        if members.get("description"):
            return False
        members["description"] = f"Tools in the {members.get('name')} namespace."
        return True
    return sum(_fill(tool) for tool in cast("list[Any]", tools)) > 0
