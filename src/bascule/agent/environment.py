"""The variables that commands see."""

import os
import re
from collections.abc import Mapping
from typing import Final

_SECRET: Final = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|SECRETS?|TOKENS?|PASS(?:WORD|WD|PHRASE)?|CREDENTIALS?|AUTH|PAT)(?:_|$)"
    r"|^BASCULE__|PASSWORD|APIKEY",
    re.IGNORECASE,
)
_KEPT: Final = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY"})
_QUIET: Final = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PYTHONUNBUFFERED": "1",
}
"""Nobody looks at colours or turns pages, and nobody can be asked."""


def environment(
    extra: Mapping[str, str] | None = None,
    *,
    base: Mapping[str, str] | None = None,
    keep: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """The agent's own variables (or `base`) without what looks like a secret, but for those in `keep`;
    then what commands need to be quiet, then `extra`."""
    base = os.environ if base is None else base
    kept = {
        name: value
        for name, value in base.items()
        if name in keep or name in _KEPT or not _SECRET.search(name)
    }
    kept.setdefault("LANG", "C.UTF-8")
    return {**kept, **_QUIET, **(extra or {})}
