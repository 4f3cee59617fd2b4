"""The conformance suite of the protocol, against the gateway's client."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.node import installed, search_path
from tests.services.mcp.servers import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

LIMIT = 60.0
"""Seconds of a scenario."""
_USER = "OAuth with a user: nobody is there with a browser; clients bring `authorization`"
_DECLINED = "nobody can be asked: the client declines"
_JWT = "client credentials are an id and a secret here, not a signed assertion"
_EXCHANGE = "an exchange of an identity provider's tokens, which a gateway does not have"

SCENARIOS: dict[str, str | None] = {
    "initialize": None,
    "tools_call": None,
    "sse-retry": None,
    "elicitation-sep1034-client-defaults": _DECLINED,
    "auth/client-credentials-basic": None,
    "auth/pre-registration": None,
    "auth/resource-mismatch": None,
    "auth/client-credentials-jwt": _JWT,
    "auth/cross-app-access-complete-flow": _EXCHANGE,
    "auth/metadata-default": _USER,
    "auth/metadata-var1": _USER,
    "auth/metadata-var2": _USER,
    "auth/metadata-var3": _USER,
    "auth/basic-cimd": _USER,
    "auth/scope-from-www-authenticate": _USER,
    "auth/scope-from-scopes-supported": _USER,
    "auth/scope-omitted-when-undefined": _USER,
    "auth/scope-step-up": _USER,
    "auth/scope-retry-limit": _USER,
    "auth/token-endpoint-auth-basic": _USER,
    "auth/token-endpoint-auth-post": _USER,
    "auth/token-endpoint-auth-none": _USER,
    "auth/2025-03-26-oauth-metadata-backcompat": _USER,
    "auth/2025-03-26-oauth-endpoint-fallback": _USER,
    "auth/offline-access-scope": _USER,
    "auth/offline-access-not-supported": _USER,
}
"""Each scenario of the suite for clients, and why the client does not pass it."""


@pytest.fixture(scope="module")
def suite() -> Path:
    return installed("conformance")


async def _run(suite: Path, folder: Path, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "node",
        suite,
        *arguments,
        cwd=folder,
        env={**os.environ, "PATH": search_path(), "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), LIMIT)
    return process.returncode or 0, said.decode()


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.requirement("mcp:conformance")
async def test_a_scenario(suite: Path, tmp_path: Path, scenario: str) -> None:
    """One that is expected to fail and passes is stale."""
    command = f"{sys.executable} -m tests.services.mcp.conformance_client"
    arguments = ("client", "--command", command, "--scenario", scenario, "--timeout", "20000")
    status, said = await _run(suite, tmp_path, *arguments)
    assert "Passed: " in said, said
    assert (status == 0) == (SCENARIOS[scenario] is None), said


async def test_no_scenario_is_left_out(suite: Path, tmp_path: Path) -> None:
    _, said = await _run(suite, tmp_path, "list")
    clients = said.split("Client scenarios", 1)[1]
    named = {line.split()[1] for line in clients.splitlines() if line.startswith("  - ")}
    assert named == SCENARIOS.keys()
