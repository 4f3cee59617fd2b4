"""Codex CLI as a process of its own, with a home of its own, that knows one provider: the gateway."""

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.node import search_path

Json = dict[str, Any]

MODEL: Final = "mock-model"
LIMIT: Final = 40.0
"""Seconds for one run."""
_SAID: Final = "Reading additional input from stdin..."
"""What it always says on stderr when stdin is no terminal."""

_CONFIG: Final = """\
model = "{model}"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
{more}
[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 10000
{tables}"""


@dataclass
class Run:
    """A run that has ended."""

    status: int
    lines: list[Json]
    """What it printed with --json."""
    warnings: list[str]
    """What it said on stderr."""

    def items(self, type_: str) -> list[Json]:
        """Finished items of a type."""
        done = [line["item"] for line in self.lines if line["type"] == "item.completed"]
        return [item for item in done if item["type"] == type_]

    @property
    def last(self) -> Json:
        return self.lines[-1]


class Codex:
    """`folder` is the test's own; `work` in it is where Codex works."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._home = folder / "home"
        self._codex_home = self._home / ".codex"
        # Not around CODEX_HOME: helper programs of Codex are refused below the temporary folder.
        self._temporary = folder / "temporary"
        self.work = folder / "work"
        for path in (self._codex_home, self._temporary, self.work):
            path.mkdir(parents=True)

    def configure(
        self,
        url: str,
        *,
        catalog: Json | None = None,
        tables: str = "",
        model: str = MODEL,
    ) -> None:
        """`model` is one that Codex may know by itself; `catalog` says what Codex knows of models, `tables` is put behind its configuration."""
        more = ""
        if catalog is not None:
            path = self._codex_home / "catalog.json"
            path.write_bytes(msgspec.json.encode(catalog))
            more = f'model_catalog_json = "{path}"\n'
        text = _CONFIG.format(model=model, url=url, more=more, tables=tables)
        (self._codex_home / "config.toml").write_text(text)

    async def run(self, prompt: str, *arguments: str) -> Run:
        """`codex exec`, to its end; it and all that it started is killed after LIMIT seconds.
        `arguments` stand before the prompt."""
        process = await asyncio.create_subprocess_exec(
            str(self._program),
            "exec",
            "--skip-git-repo-check",
            "--json",
            *arguments,
            prompt,
            cwd=self.work,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(LIMIT):
                out, err = await process.communicate()
        finally:
            _kill_group(process.pid)
            await process.wait()
        assert process.returncode is not None
        said = [line for line in err.decode().splitlines() if line and line != _SAID]
        return Run(process.returncode, [msgspec.json.decode(s) for s in out.splitlines()], said)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": search_path(),
            "HOME": str(self._home),
            "CODEX_HOME": str(self._codex_home),
            "TMPDIR": str(self._temporary),
            "GATEWAY_KEY": "none",
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of it has ended
