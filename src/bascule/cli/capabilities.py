"""The page of capabilities: `python -m bascule.cli.capabilities` writes it to stdout."""

import sys
from typing import Final

from bascule.protocols.capability import Capability, Kind, Support
from bascule.protocols.capability_rows import ROWS

_HEADINGS: Final[dict[Kind, tuple[str, str]]] = {
    "field": (
        "Request fields",
        "Fields that are not in the table have no effect, and are named in `x-bascule-ignored`.",
    ),
    "option": ("Options inside of fields", ""),
    "include": (
        "Values of `include`",
        "Other values are a 400. Without a value its data is absent or null.",
    ),
    "part": ("Content parts", "In messages and in the outputs of tools. Other parts are a 400."),
    "item": ("Items of the input", "Other items are a 400 that names the type."),
    "tool": (
        "Declared tools",
        "A type that is refused is a 400 that names it. Types `slug:name` come from [plugins](plugins.md).",
    ),
}

_HEAD: Final = """# Capabilities

What becomes of everything that a request may hold, by the protocol of the model's server. This page is made
by `scripts/docs` of the data that the code itself asks, in `src/bascule/protocols/capability_rows.py`.

- **honoured**: it does what the Responses API says; passed on as it is, or done by the gateway.
- **translated**: it reaches the server in another shape.
- **tolerated**: it has no effect, and the response header `x-bascule-ignored` names it.
- **refused**: a 400 that names it in `param`.

Where a [profile](profiles.md)'s flag decides, the table says which.
"""


def page() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD]
    for kind, (heading, text) in _HEADINGS.items():
        parts.append(f"## {heading}\n")
        if text:
            parts.append(f"{text}\n")
        rows = [_row(row) for row in ROWS if row.kind == kind]
        parts.append(
            "\n".join(["| | Chat Completions | Responses | |", "|---|---|---|---|", *rows])
        )
        parts.append("")
    return "\n".join(parts)


def _row(row: Capability) -> str:
    cells = (f"`{row.name}`", _cell(row.chat), _cell(row.responses), row.note)
    return f"| {' | '.join(cells)} |"


def _cell(support: Support) -> str:
    if support.otherwise is None:
        return support.verdict
    if support.flag is None:
        condition = support.where
    elif support.values:
        values = " or ".join(f"`{value}`" for value in support.values)
        condition = f"`{support.flag}` is {values}"
    else:
        condition = f"`{support.flag}` is set"
    return f"{support.verdict} where {condition}, else {support.otherwise}"


if __name__ == "__main__":
    sys.stdout.write(page())
