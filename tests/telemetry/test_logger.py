"""Loggers that load the logging library when there is something to say."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from bascule.telemetry.logger import Logger, configure_later
log = Logger("x")
{configure}
print("structlog" in sys.modules)
log.info("quiet")
log.warning("loud", number=1)
"""


def run(configure: str) -> "subprocess.CompletedProcess[str]":
    code = SCRIPT.format(configure=configure)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.requirement("telemetry:later")
def test_the_first_word_counts_and_nothing_is_loaded_for_it() -> None:
    done = run('configure_later("json", "warning"); configure_later("text", "error")')
    assert done.stdout == "False\n"
    assert '"event":"loud"' in done.stderr.replace(" ", "")
    assert "quiet" not in done.stderr


def test_one_who_has_configured_it_is_left_alone() -> None:
    own = 'configure_later("text", "error")\nfrom bascule.telemetry.logs import configure_logging; configure_logging("json", "info")'
    done = run(own)
    assert done.stdout == "True\n"
    assert '"event":"quiet"' in done.stderr.replace(" ", "")
