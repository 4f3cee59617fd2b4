"""docs/capabilities.md is what `scripts/docs` writes."""

from bascule.cli.capabilities import page
from bascule.protocols.capability_rows import ROWS
from tests.process import ROOT


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/capabilities.md").read_text() == page(), "run scripts/docs"


def test_the_page_has_every_row() -> None:
    lines = page().splitlines()
    for row in ROWS:
        assert [line for line in lines if line.startswith(f"| `{row.name}` |")], row.name
