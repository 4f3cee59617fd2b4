"""What becomes of each thing that a request may hold, by the protocol of the model's server.

One row for each field, option, `include` value, content part, item and tool type. The door and the
encoders ask here what is refused and what is tolerated, the tests prove every row, and
docs/capabilities.md is made of it (`scripts/docs`). Rows: bascule.protocols.capability_rows.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from bascule.protocols.capability import Capability, Kind, Upstream, Verdict
from bascule.protocols.capability_rows import ROWS
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.flags import Flags

_TABLES: Final[dict[Kind, dict[str, Capability]]] = {}
for _row in ROWS:
    if _TABLES.setdefault(_row.kind, {}).setdefault(_row.name, _row) is not _row:
        raise ValueError(f"two rows for the {_row.kind} {_row.name!r}")

FIELDS: Final = _TABLES["field"]
OPTIONS: Final = _TABLES["option"]
INCLUDES: Final = _TABLES["include"]
PARTS: Final = _TABLES["part"]
ITEMS: Final = _TABLES["item"]
TOOLS: Final = _TABLES["tool"]

_REFUSED: Final[dict[Upstream, frozenset[str]]] = {
    upstream: frozenset(name for name, row in FIELDS.items() if row.on(upstream).always("refused"))
    for upstream in ("chat", "responses")
}
REFUSED_ANYWHERE: Final = _REFUSED["chat"] & _REFUSED["responses"]
"""Fields that no upstream can serve: the door refuses them."""


def verdict(row: Capability, upstream: Upstream, flags: Flags) -> Verdict:
    """What happens at a server with these flags."""
    support = row.on(upstream)
    if support.flag is None or support.otherwise is None:
        return support.verdict
    value = getattr(flags, support.flag)
    has = value in support.values if support.values else value not in (False, "none")
    return support.verdict if has else support.otherwise


def asks_for_nothing(row: Capability, raw: bytes | msgspec.Raw) -> bool:
    """Whether a value says what is done anyway."""
    return bytes(raw).replace(b" ", b"") in row.neutral


def check_fields(names: Iterable[str], upstream: Upstream) -> None:
    """Raises ApiError 400 for the first field that this protocol has no place for."""
    for name in names:
        if name in _REFUSED[upstream]:
            raise refusal(FIELDS[name], name)


def refusal(row: Capability, param: str) -> ApiError:
    """The 400 for something that is known, and refused for the reason that its row gives."""
    what, code = _REFUSALS[row.kind]
    return invalid(f"{what.format(name=row.name)} {row.note}".strip(), param, code)


_REFUSALS: Final[dict[Kind, tuple[str, str]]] = {
    "field": ("The parameter '{name}' is not supported.", "unsupported_parameter"),
    "option": ("The parameter '{name}' is not supported.", "unsupported_parameter"),
    "include": ("'{name}' cannot be included.", "unsupported_value"),
    "part": ("Content parts of type '{name}' are not supported.", "unsupported_value"),
    "item": ("Items of type '{name}' are not supported.", "unsupported_value"),
    "tool": ("Tools of type '{name}' are not supported.", "unsupported_value"),
}
