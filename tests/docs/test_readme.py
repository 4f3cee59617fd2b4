"""Every block of the README runs as it is written, against a gateway with the demo model."""

import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from bascule.config import load
from bascule.gateway.serve import check, make_client
from bascule.protocols import capabilities
from bascule.testing.demo import demo_server
from bascule.tools.all import all_handlers
from tests.docs.blocks import blocks
from tests.process import ROOT, Running, environment, gateway, running

PAGE = ROOT / "README.md"
BLOCKS = blocks(PAGE)
RUN = [block for block in BLOCKS if block.why is None]
BASH = [block.text for block in RUN if block.kind == "bash"]
PYTHON = [block.text for block in RUN if block.kind == "python"]
TOML = [block.text for block in RUN if block.kind == "toml"]
ADDRESS = "http://127.0.0.1:8787"


@pytest.fixture(scope="module")
def demo() -> Generator[str]:
    server = demo_server()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server.url


@pytest.fixture(scope="module")
def served(demo: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with gateway(tmp_path_factory.mktemp("served"), "--upstream", demo) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the project, as far as the blocks need it."""
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    return tmp_path


def _run(folder: Path, command: list[str], **env: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, **env),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_blocks_are_of_kinds_that_are_run() -> None:
    assert {block.kind for block in BLOCKS} == {"bash", "python", "toml"}
    assert len(RUN) >= len(BLOCKS) - 2


def test_the_shell_blocks(folder: Path, served: Running, demo: str) -> None:
    script, lines = "", 0
    for block in RUN:
        if block.kind == "toml":
            script += f"cat >bascule.toml <<'TOML'\n{block.text}TOML\n"
        elif block.kind == "bash" and "bascule serve" not in block.text:
            script += f"{block.text}echo '--- end'\n"
            lines += 1
    script = script.replace(ADDRESS, served.url)
    out = _run(folder, ["bash", "-euo", "pipefail", "-c", script], UPSTREAM=demo)
    said = out.split("--- end\n")[:-1]
    assert len(said) == lines
    curl = next(text for text in said if "resp_" in text)
    assert '"object":"list"' in curl
    assert '"status":"completed"' in curl
    assert "event: response.completed" in curl
    assert '"error":{' not in curl
    assert sum("bascule.toml: ok" in text for text in said) == 2
    assert any(text.startswith("bascule-demo\t") for text in said)


@pytest.mark.parametrize("text", [text for text in BASH if "bascule serve" in text])
def test_the_serve_blocks(folder: Path, text: str) -> None:
    env = {"BASCULE__SERVER__PORT": "0"}
    with running(folder, "bash", "-ec", f"exec {text.strip()}", env=env) as child:
        assert child.url.startswith("http://127.0.0.1:")
        assert child.stop() == 0


def test_the_python_blocks_in_one_session(folder: Path, served: Running) -> None:
    script = "\n".join(f"{text}\nprint('--- end')" for text in PYTHON)
    env = {"OPENAI_BASE_URL": f"{served.url}/v1", "OPENAI_API_KEY": "none"}
    said = _run(folder, [sys.executable, "-W", "error", "-c", script], **env).split("--- end\n")
    assert len(said) == len(PYTHON) + 1
    for text, output in zip(PYTHON, said, strict=False):
        assert output.strip(), text
    everything = "".join(said)
    assert "sunny in Paris" in everything
    assert "sunny in Tokyo" in everything
    assert "custom_tool_call" in everything
    assert "name='Paris' population=2100000" in everything
    assert "2100000" in said[-2]


def test_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASCULE_KEY", "a")
    monkeypatch.setenv("UPSTREAM_KEY", "b")
    path = tmp_path / "bascule.toml"
    path.write_text(TOML[0])
    router = check(load(path), make_client())
    assert router.resolve("default").model == "Qwen/Qwen3-32B"
    assert router.resolve("openai/o9").model == "o9"


def test_the_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert links
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", ["function", "custom"])
def test_the_tool_types_are_those_that_there_are(name: str) -> None:
    assert all_handlers().for_type(name) is not None


def test_what_it_says_of_the_request_is_what_the_door_does() -> None:
    text = PAGE.read_text()
    table = {
        line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")
    }
    for name, row in capabilities.FIELDS.items():
        place = "refused" if row.chat.always("refused") else "honoured"
        line = next(line for start, line in table.items() if start.startswith(place))
        assert f"`{name}`" in line, name
