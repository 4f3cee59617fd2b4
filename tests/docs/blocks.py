"""The fenced blocks of a page."""

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """`why` says why it is not run, if it is not."""

    kind: str
    text: str
    why: str | None


def blocks(page: Path) -> list[Block]:
    return [Block(m["kind"], m["text"], m["why"]) for m in _BLOCK.finditer(page.read_text())]
