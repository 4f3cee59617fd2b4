"""The other pages name what there is."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule import config
from bascule.config import Config
from bascule.gateway.serve import check, make_client
from bascule.protocols.flags import Flags
from bascule.upstreams.profiles import PROFILES
from tests.docs.blocks import blocks
from tests.process import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "[server]": config.ServerSection,
    "[state]": config.StateSection,
    "[security]": config.SecuritySection,
    "[limits]": config.LimitsSection,
    "[telemetry]": config.TelemetrySection,
    "[[upstreams]]": config.UpstreamSection,
    "[[models]]": config.ModelSection,
    "[tools]": config.ToolsSection,
    "[[mcp_servers]]": config.McpServerSection,
    "[agent]": config.AgentSection,
}


def _rows(section: str) -> dict[str, list[str]]:
    """The table below a heading: the cells of each row by the key in its first one."""
    text = (DOCS / "configuration.md").read_text().split(f"## `{section}`\n", 1)[1]
    text = text.split("\n## ", 1)[0]
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row for row in cells}


def test_the_page_has_every_section() -> None:
    text = (DOCS / "configuration.md").read_text()
    assert re.findall(r"^## `(.+)`$", text, re.MULTILINE) == list(SECTIONS)
    assert {name.strip("[]") for name in SECTIONS} == set(Config.__struct_fields__)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_every_key_and_its_default(name: str) -> None:
    fields = {f.name: f for f in msgspec.structs.fields(SECTIONS[name]) if f.name != "by_type"}
    rows = _rows(name)
    assert list(rows) == list(fields)
    for key, row in rows.items():
        assert len(row) == 3
        if row[1].startswith("`"):
            assert _default(fields[key]) == _toml(row[1].strip("`")), key
        elif row[1] == "required":
            assert fields[key].required, key
        else:
            assert fields[key].default in (None, ()), key


def _toml(text: str) -> Any:
    return tomllib.loads(f"value = {text}")["value"]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    made: Any = field.default_factory
    value: Any = field.default if made is msgspec.NODEFAULT else made()
    return list(value) if isinstance(value, tuple) else value


def test_the_table_of_profiles() -> None:
    lines = (DOCS / "profiles.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    names = [cell.strip("`") for cell in table[0][1:]]
    assert names == list(PROFILES)
    flags = {row[0].strip("`"): row[1:] for row in table[2:-1]}
    assert list(flags) == list(Flags.__struct_fields__)
    for flag, cells in flags.items():
        shown = [_shown(getattr(PROFILES[name].flags, flag)) for name in names]
        assert cells == shown, flag
    assert table[-1][1:] == [str(PROFILES[name].port or "") for name in names]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return "yes" if value else "no"


@pytest.mark.parametrize("flag", Flags.__struct_fields__)
def test_every_flag_is_explained(flag: str) -> None:
    text = (DOCS / "profiles.md").read_text()
    explained = " ".join(re.findall(r"^- (`.+?`):", text, re.MULTILINE))
    assert f"`{flag}`" in explained


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_are_there(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("text", [b.text for b in blocks(DOCS / "profiles.md")])
def test_the_examples_of_profiles(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bascule.toml"
    path.write_text(text)
    check(config.load(path, {}), make_client())


def test_the_files_that_the_architecture_names_are_there() -> None:
    text = (DOCS / "architecture.md").read_text()
    house = text.split("```\nsrc/bascule/\n", 1)[1].split("```", 1)[0]
    missing: list[str] = []
    folder = ""
    for line in house.splitlines():
        if not line.startswith("  "):
            break
        names = re.findall(r"[\w/]+(?:\.py|/)(?= |$|;|,|\))", line)
        top = re.match(r"  (\w+/)", line)
        if top:
            folder = top.group(1)
        missing += [
            name
            for name in names
            if not list((ROOT / "src/bascule").rglob(name.rstrip("/").rpartition("/")[2]))
        ]
    assert folder == "cli/"
    assert missing == []
