"""The adapters that keep a boundary, and a machine to keep them out of."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bascule.services.sandbox import Boundary, Bubblewrap, Command, Mode, Sandbox

PYTHON = os.path.realpath(sys.executable)
"""The interpreter itself: what is below /tmp, such as a virtual environment there, is not to be seen."""

ADAPTERS: list[Callable[[], Sandbox]] = [Bubblewrap]


@dataclass
class Machine:
    """A workspace, what lies beside it, and a way to run something in a sandbox there."""

    sandbox: Sandbox
    folder: Path
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        for path in (self.workspace, self.beside, self.temp):
            path.mkdir()

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def beside(self) -> Path:
        return self.folder / "beside"

    @property
    def temp(self) -> Path:
        return self.folder / "temp"

    def boundary(self, mode: Mode, *, network: bool = False) -> Boundary:
        return Boundary(mode=mode, workspace=self.workspace, network=network, temp=self.temp)

    def run(
        self, *argv: str, mode: Mode = "workspace-write", network: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        command = Command(argv=argv, cwd=self.workspace, env=self.env)
        prepared = self.sandbox.prepare(command, self.boundary(mode, network=network))
        try:
            return subprocess.run(
                prepared.argv,
                cwd=prepared.cwd,
                env=dict(prepared.env),
                pass_fds=prepared.fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=30,
                check=False,
            )
        finally:
            prepared.release()

    def sh(
        self, script: str, mode: Mode = "workspace-write", *, network: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        return self.run("sh", "-c", script, mode=mode, network=network)

    def python(
        self, script: str, mode: Mode = "workspace-write", *, network: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        return self.run(PYTHON, "-c", script, mode=mode, network=network)


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.__name__)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(request.param(), tmp_path)
