"""llmprobe, a conformance suite for model servers, on its Responses and Models scenarios: a gateway
process in front of the demo model."""

import asyncio
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.testing.demo import demo_server
from tests.process import ROOT, environment, gateway

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

LOCKED = ROOT / "tests" / "npm"

EXPECTED = {
    "responses: streaming + SSE framing": (
        "it knows Open Responses' names of raw reasoning events, the gateway sends OpenAI's"
    ),
    "responses: length finish reason": "the demo model knows no limit",
    "responses: a cap spent on reasoning is reported as a cap": "the demo model knows no limit",
}
"""Findings that stay, and why."""


def _installed() -> Path:
    """The programs of the lock file, in the user's cache. Raises where npm cannot be had."""
    lock = (LOCKED / "package-lock.json").read_bytes()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "bascule" / f"npm-{_digest(lock)}"
    if (folder / "done").exists():
        return folder
    if shutil.which("npm") is None:
        if os.geteuid() or shutil.which("apt-get") is None:
            raise RuntimeError("this test needs npm (Debian: nodejs and npm)")
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "nodejs", "npm"], check=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKED / name, folder / name)
    options = ["--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(["npm", "ci", *options], cwd=folder, check=True, timeout=240)
    (folder / "done").touch()
    return folder


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


async def test_its_findings_are_known(tmp_path: Path) -> None:
    async with demo_server() as demo:
        found = await asyncio.to_thread(_probe, tmp_path, demo.url)
    ours = [r for r in found if r["surface"] in ("responses", "models")]
    passed = {r["name"] for r in ours if r["outcome"] == "pass"}
    failed = {r["name"]: r["failures"] for r in ours if r["outcome"] == "fail"}
    assert len(passed) >= 20, found
    assert failed.keys() == EXPECTED.keys(), failed


def _probe(home: Path, upstream: str) -> list[dict[str, Any]]:
    program = _installed() / "node_modules" / ".bin" / "llmprobe"
    report = home / "report.json"
    config = home / "bascule.toml"
    config.write_text("[server]\nsse_done = true\n")
    arguments = ["--config", str(config), "--upstream", upstream, "--profile", "openai"]
    with gateway(home, *arguments) as served:
        command = [str(program), f"{served.url}/v1", "-m", "bascule-demo", "--no-bench"]
        command += ["--no-save", "--no-color", "--timeout", "20", "--save", str(report)]
        subprocess.run(
            command,
            cwd=home,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=200,
            check=False,  # findings are its exit status
        )
    return msgspec.json.decode(report.read_bytes())["conformance"]["results"]
