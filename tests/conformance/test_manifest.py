"""What holds tests and manifest together."""

import pytest

from tests.conformance.manifest import ManifestError, load, missing, read, unknown

GOOD = {"id": "area:feature", "source": "somewhere", "text": "It works."}


def test_the_manifest_is_well_formed() -> None:
    requirements = load()
    assert len(requirements) > 100
    assert {id_.partition(":")[0] for id_ in requirements} >= {"http", "stream", "state", "error"}


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([{**GOOD, "id": "Area:feature"}], "not an id"),
        ([{**GOOD, "id": "area"}], "not an id"),
        ([{**GOOD, "id": "area:a:b:c"}], "not an id"),
        ([GOOD, GOOD], "listed twice"),
        ([{"id": "area:feature", "text": "x"}], "'source' is missing"),
        ([{**GOOD, "text": " "}], "'text' is missing or empty"),
        ([{**GOOD, "note": "x"}], "unknown key 'note'"),
    ],
)
def test_a_malformed_entry_is_named(entries: list[dict[str, str]], fault: str) -> None:
    with pytest.raises(ManifestError, match=fault):
        read({"requirement": entries})


def test_a_requirement_without_a_test_is_named() -> None:
    assert missing(["a:b", "a:c"], {"a:b"}) == ["the requirement a:c has no test that ran"]


def test_an_unknown_id_is_named() -> None:
    (line,) = unknown(["a:b"], {"test_x": {"a:b", "a:c"}})
    assert line.startswith("test_x names the requirement a:c")


_CONFTEST = """
from tests.conformance import manifest

def pytest_configure(config):
    config.addinivalue_line("markers", "requirement(*ids): x")
    known = manifest.read({"requirement": [
        {"id": "a:one", "source": "x", "text": "x"},
        {"id": "a:two", "source": "x", "text": "x"},
    ]})
    config.pluginmanager.register(manifest.Enforcement(known, [lambda: CHECKS]), "own")

CHECKS = []
"""

_TEST = """
import pytest

@pytest.mark.requirement("a:one")
def test_one():
    pass

@pytest.mark.requirement("{second}")
def test_two():
    {body}
"""


def _run(
    pytester: pytest.Pytester, second: str, body: str = "pass", *args: str
) -> pytest.RunResult:
    pytester.makeini("[pytest]\ntestpaths = .")
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(_TEST.format(second=second, body=body))
    plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--assert=plain")
    return pytester.runpytest_inprocess(*plain, *args)


def test_a_whole_run_passes_when_all_is_proved(pytester: pytest.Pytester) -> None:
    assert _run(pytester, "a:two").ret == pytest.ExitCode.OK


@pytest.mark.parametrize(("second", "body"), [("a:one", "pass"), ("a:two", "pytest.skip()")])
def test_a_whole_run_fails_without_a_test_that_ran(
    pytester: pytest.Pytester, second: str, body: str
) -> None:
    result = _run(pytester, second, body)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["the requirement a:two has no test that ran"])


@pytest.mark.parametrize("args", [("-k", "one"), ("-m", "requirement"), ("test_x.py",)])
def test_a_part_of_the_tests_need_not_prove_everything(
    pytester: pytest.Pytester, args: tuple[str, ...]
) -> None:
    if args == ("test_x.py",):
        pytester.makepyfile(test_x="def test_x(): pass")
    assert _run(pytester, "a:one", "pass", *args).ret == pytest.ExitCode.OK


def test_any_run_fails_on_an_unknown_id(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "a:three", "pass", "-k", "two")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*a:three, which is not in the manifest"])
