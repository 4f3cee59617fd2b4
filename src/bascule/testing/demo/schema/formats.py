"""The `format` keyword: a sample of each, and whether a string has it."""

import re
from typing import Final

_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"

FORMATS: Final = {
    "date": (_DATE, "2026-01-15"),
    "date-time": (rf"{_DATE}T{_TIME}", "2026-01-15T12:00:00Z"),
    "time": (_TIME, "12:00:00Z"),
    "duration": (r"P(?:\d+[YMWD])*(?:T(?:\d+[HMS])+)?", "PT1H"),
    "email": (r"[^@\s]+@[^@\s]+\.[^@\s]+", "someone@example.com"),
    "hostname": (_HOST, "example.com"),
    "uri": (r"[A-Za-z][A-Za-z0-9+.-]*:\S+", "https://example.com/"),
    "uuid": (r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "0" * 8 + "-0000" * 3 + "-" + "0" * 12),
    "ipv4": (rf"{_OCTET}(?:\.{_OCTET}){{3}}", "192.0.2.1"),
    "ipv6": (r"[0-9a-fA-F:.]*:[0-9a-fA-F:.]*", "2001:db8::1"),
}  # fmt: skip
"""A pattern and a sample for each format that is known."""


def fits(value: str, name: str | None) -> bool:
    """Whether the string has the format; an unknown one fits all."""
    known = FORMATS.get(name or "")
    return known is None or re.fullmatch(known[0], value) is not None


def sample(name: str | None) -> str | None:
    """A string of the format, None for an unknown one."""
    known = FORMATS.get(name or "")
    return known[1] if known else None
