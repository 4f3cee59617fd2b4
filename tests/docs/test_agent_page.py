"""docs/agent.md: its program runs, its commands and tables are those that there are."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from bascule.agent.approvals.rules import load
from bascule.agent.settings import ToolsConfig
from bascule.testing import ModelServer
from tests.agent.world import function, said, scripted
from tests.docs.blocks import blocks
from tests.process import ROOT, environment

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs/agent.md"
BLOCKS = {
    kind: [b.text for b in blocks(PAGE) if b.kind == kind]
    for kind in ("bash", "text", "toml", "python")
}


@pytest.mark.requirement("agent:docs")
async def test_the_program_runs_and_is_short(tmp_path: Path) -> None:
    [program] = BLOCKS["python"]
    assert len(program.splitlines()) < 30
    (tmp_path / "program.py").write_text(program)
    script = scripted([function("disk_space", {"path": "/"})], [said("Enough.")])
    async with ModelServer(script) as model:
        import asyncio

        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env=environment(tmp_path, BASE_URL=model.url, MODEL="m"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "completed Enough.\n", done.stderr
        [output] = [i["output"] for i in model.requests[1].json["input"] if "output" in i]
        assert msgspec.json.decode(output).keys() == {"free", "total"}
        [declared] = [t for t in model.requests[0].json["tools"] if t.get("name") == "disk_space"]
        assert declared["description"].startswith("Says how many bytes")


async def test_the_commands_run(tmp_path: Path) -> None:
    import asyncio

    [commands] = BLOCKS["bash"]
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "bascule"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bascule.cli "$@"\n')
    program.chmod(0o755)
    async with ModelServer(scripted([said("Repaired.")], [said("Added.")])) as model:
        variables = environment(tmp_path, BASCULE__AGENT__BASE_URL=model.url)
        variables["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "Repaired.\nAdded.\n", done.stderr


def test_the_rules_are_read(tmp_path: Path) -> None:
    [text] = BLOCKS["toml"]
    assert tomllib.loads(text)
    (tmp_path / "rules.toml").write_text(text)
    load([tmp_path / "rules.toml"])


def test_the_tools_are_those_of_the_configuration() -> None:
    table = PAGE.read_text().split("## Tools", 1)[1].split("## ", 1)[0]
    rows = [
        line.strip("| ").split(" | ")[0] for line in table.splitlines() if line.startswith("| ")
    ]
    named = {name for row in rows[1:] for name in row.split(", ")}
    fields = set(ToolsConfig.__struct_fields__)
    assert named == fields
    assert re.search(r"`request_user_input`", table)
