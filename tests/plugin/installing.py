"""Packages of plugins, installed into a folder of their own, offline."""

import subprocess
import sys
from pathlib import Path

from tests.process import environment


def install(package: Path, home: Path) -> Path:
    """Build a package with what is here already; the folder is for PYTHONPATH."""
    target = home / "site"
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--offline"),
            *("--no-cache", "--no-deps", "--no-build-isolation", "--python", sys.executable),
            *("--target", str(target), str(package)),
        ],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def fake(folder: Path, name: str, source: str, *entries: str) -> None:
    """A package as it looks when it is installed: a module, and entry points `name = object`."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(["[bascule.tools]", *entries, ""]))
