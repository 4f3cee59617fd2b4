"""What docs/mcp.md shows is read by the real configuration and by the real parsers."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from bascule.config import convert
from bascule.tools.mcp_params import read_mcp
from bascule.tools.mcp_servers import McpOptions
from tests.process import ROOT

TEXT = (Path(ROOT) / "docs" / "mcp.md").read_text()


def test_the_configuration_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [block] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    secret = tmp_path / "secret"
    secret.write_text("s")
    block = block.replace("/run/secrets/tickets", str(secret))
    config = convert(tomllib.loads(block), {"PAPERS_KEY": "k"})
    assert [server.label for server in config.mcp_servers] == ["papers", "tickets"]
    options = msgspec.convert(config.tools.by_type["mcp"], McpOptions)
    assert options.connectors == {"connector_calendar": "https://calendar.example.org/mcp"}


def test_the_requests_are_right() -> None:
    requests = [msgspec.json.decode(b) for b in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]
    assert len(requests) == 2
    for request in requests:
        for tool in request["tools"]:
            assert read_mcp(Raw(msgspec.json.encode(tool)), "tools[0]", ()).server_label == "papers"


def test_the_options_are_all_there() -> None:
    table = TEXT.split("| `[tools.mcp]` |", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    names = [name.strip("`") for row in rows for name in row[0].split(", ")]
    own = set(McpOptions.__struct_fields__) - {"parallel"}
    assert set(names) == own
    defaults = {f.name: f.default for f in msgspec.structs.fields(McpOptions)}
    for row in rows:
        name, said = row[0].strip("`"), row[1].strip("`")
        if name in ("max_seconds", "connect_timeout", "max_connections", "idle_seconds"):
            assert defaults[name] == float(said), name
