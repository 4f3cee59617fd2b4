"""Takes keys out of what is written down: known ones wherever they stand, others by how they look."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

MASK: Final = "***"

Headers = Sequence[tuple[bytes, bytes]]

_NAMES: Final = (
    r"(?:[\w-]*api[_-]?key|authorization|proxy-authorization|(?:access|refresh|id|auth|bearer)_token"
    r"|client_secret|secret(?:_key)?|password|passwd|private_key|credentials?|set-cookie|cookie"
    r"|x-[\w-]*(?:token|secret|auth))"
)
# A member of a JSON object, also of JSON inside a JSON string, where the quotes are escaped. A value
# whose end is in doubt is masked to the end of the string around it.
_MEMBER: Final = re.compile(
    r'(?P<begin>(?P<quote>\\*")' + _NAMES + r"(?P=quote)\s*:\s*(?P=quote))"
    r'(?:[^"\\]|\\.)*?(?P<end>(?<!\\)(?P=quote)|(?="))',
    re.IGNORECASE | re.DOTALL,
)
# What a declared tool brings for others: headers for its server (a schema of some is none), secrets for
# the domains that a container may reach.
_BROUGHT: Final = re.compile(
    r'("headers"\s*:\s*)\{(?![^{}]*"type"\s*:)[^{}]+\}|("domain_secrets"\s*:\s*)\[[^\]]+\]'
)
_SCHEME: Final = re.compile(
    r"\b(Bearer|Basic)(\s+)(?=[\w.~+/-]*[\d=.~+/_-])[\w.~+/-]{6,}=*", re.IGNORECASE
)
_SHAPE: Final = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|glpat|xox[abp])[-_][A-Za-z0-9][\w-]{10,}"
)
_URL: Final = re.compile(r"(://)[^/\s:@\"]+:[^/\s@\"]+@")
_QUERY: Final = re.compile(r"([?&][\w-]*(?:key|token|secret|signature)=)[^&\s\"\\]+", re.IGNORECASE)
_HEADER: Final = re.compile(rb"auth|key|token|secret|cookie|credential|password", re.IGNORECASE)
_SHORT: Final = 4


class Redactor:
    """Masks the secrets it is given, and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({s for s in secrets if len(s) >= _SHORT}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """Text, or JSON as text; it stays JSON."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _MEMBER.sub(rf"\g<begin>{MASK}\g<end>", text)
        text = _BROUGHT.sub(lambda found: f'{found[1] or found[2]}"{MASK}"', text)
        text = _SCHEME.sub(rf"\1\2{MASK}", text)
        text = _SHAPE.sub(MASK, text)
        text = _URL.sub(rf"\1{MASK}@", text)
        return _QUERY.sub(rf"\1{MASK}", text)

    def headers(self, headers: Headers) -> dict[str, str]:
        """Header lines by name; several of one name are joined by commas."""
        shown: dict[str, str] = {}
        for name, value in headers:
            key = name.decode("latin-1")
            text = MASK if _HEADER.search(name) else self.text(value.decode("latin-1"))
            shown[key] = f"{shown[key]}, {text}" if key in shown else text
        return shown


def keys_in(headers: Headers) -> list[str]:
    """The credentials that a request carries."""
    found: list[str] = []
    for name, value in headers:
        if name.lower() in (b"authorization", b"x-api-key", b"api-key", b"proxy-authorization"):
            text = value.decode("latin-1")
            scheme, _, rest = text.partition(" ")
            found.append(rest.strip() if rest and scheme.lower() in ("bearer", "basic") else text)
    return [key for key in found if key]
