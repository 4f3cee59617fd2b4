"""A gateway in front of everything that was recorded, chosen by the model's name."""

import pytest

from tests.recordings import tally


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = tally.lines()
    if lines:
        terminalreporter.section("recordings")
        for line in lines:
            terminalreporter.line(line)
