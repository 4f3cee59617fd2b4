"""The requirements manifest, and what holds tests and manifest together.

Every requirement is written down once, in `requirements.toml`. A test names the ids it proves with
`@pytest.mark.requirement("id", ...)`. A run of all tests fails when a requirement has no test that ran;
any run fails when a test names an id that is not there or the manifest itself is malformed.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MANIFEST = Path(__file__).with_name("requirements.toml")

_ID = re.compile(r"[a-z0-9_.-]+:[a-z0-9_.-]+(?::[a-z0-9_.-]+)?")
_KEYS = frozenset({"id", "source", "text", "expected_difference"})


class ManifestError(ValueError):
    """Says what is wrong with the manifest, a line for each fault."""


@dataclass(frozen=True)
class Requirement:
    id: str
    source: str
    text: str
    expected_difference: str | None = None


def load(path: Path = MANIFEST) -> dict[str, Requirement]:
    """The requirements by id. Raises ManifestError."""
    return read(tomllib.loads(path.read_text(encoding="utf-8")))


def read(tree: Mapping[str, Any]) -> dict[str, Requirement]:
    """The requirements of a parsed manifest. Raises ManifestError with every fault it has."""
    faults: list[str] = []
    found: dict[str, Requirement] = {}
    for entry in tree.get("requirement", []):
        faults += _faults(entry, found)
        if isinstance(entry.get("id"), str):
            found[entry["id"]] = Requirement(
                entry["id"],
                str(entry.get("source")),
                str(entry.get("text")),
                entry.get("expected_difference"),
            )
    if faults:
        raise ManifestError("\n".join(faults))
    return found


def _faults(entry: Mapping[str, Any], found: Mapping[str, Requirement]) -> list[str]:
    name = entry.get("id", "(no id)")
    faults = [f"{name}: unknown key '{key}'" for key in sorted(entry.keys() - _KEYS)]
    for key in ("id", "source", "text"):
        value = entry.get(key)
        if not isinstance(value, str) or not value.strip():
            faults.append(f"{name}: '{key}' is missing or empty")
    if not _ID.fullmatch(str(name)):
        faults.append(f"{name}: not an id of the form area:feature[:variant]")
    if name in found:
        faults.append(f"{name}: listed twice")
    return faults


def missing(requirements: Iterable[str], proved: Iterable[str]) -> list[str]:
    """A line for each requirement without a test that ran."""
    without = sorted(set(requirements) - set(proved))
    return [f"the requirement {id_} has no test that ran" for id_ in without]


def unknown(requirements: Iterable[str], named: Mapping[str, set[str]]) -> list[str]:
    """A line for each test that names an id which is not in the manifest."""
    known = set(requirements)
    return [
        f"{test} names the requirement {id_}, which is not in the manifest"
        for test, ids in sorted(named.items())
        for id_ in sorted(ids - known)
    ]


def is_whole_run(config: pytest.Config) -> bool:
    """Whether nothing was left out of the run: no path, expression, marker or earlier failure
    chose among the tests."""
    options = (
        "real",
        "keyword",
        "markexpr",
        "lf",
        "last_failed",
        "failedfirst",
        "stepwise",
        "deselect",
    )
    chosen = any(
        config.getoption(name, default=None) for name in (*options, "ignore", "ignore_glob")
    )
    by_default = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    return by_default and not chosen and not config.getoption("collectonly", default=False)


@dataclass(eq=False)
class Enforcement:
    """The pytest plugin. `checks` are asked at the end of a whole run for more that is amiss."""

    requirements: dict[str, Requirement]
    checks: list[Any] = field(default_factory=list)
    named: dict[str, set[str]] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("requirement"):
                self.named.setdefault(item.nodeid, set()).update(mark.args)
        wrong = unknown(self.requirements, self.named)
        if wrong:
            raise pytest.UsageError(*wrong)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and (report.passed or hasattr(report, "wasxfail")):
            self.ran.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus != pytest.ExitCode.OK or not is_whole_run(session.config):
            return
        proved = {id_ for test in self.ran for id_ in self.named.get(test, ())}
        self.faults = missing(self.requirements, proved)
        for check in self.checks:
            self.faults += check()
        if self.faults:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.faults:
            terminalreporter.section("requirements", red=True, bold=True)
            for fault in self.faults:
                terminalreporter.line(fault)
