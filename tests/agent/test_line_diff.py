"""Diffs of lines: right for all, and quick for long ones."""

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.agent.line_diff import hunks

some_lines = st.lists(
    st.sampled_from(["a", "b", "c", "", "unique", "other", "x y", "{", "}"]), max_size=40
)


@given(some_lines, some_lines)
@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.requirement("turn_diff:lines")
def test_patch_makes_the_new_of_the_old(tmp_path: Path, old: list[str], new: list[str]) -> None:
    before, after = [f"{line}\n" for line in old], [f"{line}\n" for line in new]
    text = "".join(hunks(before, after))
    if before == after:
        assert text == ""
        return
    (tmp_path / "f").write_text("".join(before))
    done = subprocess.run(
        ["patch", "-s", "-F0", "f"],
        input=f"--- f\n+++ f\n{text}",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + text
    result = (tmp_path / "f").read_text() if (tmp_path / "f").exists() else ""
    assert result == "".join(after)


def test_what_is_left_as_it_is_is_not_told() -> None:
    old = [f"{n}\n" for n in range(100)]
    new = [*old[:50], "new\n", *old[51:]]
    assert list(hunks(old, new)) == [
        "@@ -48,7 +48,7 @@\n", " 47\n", " 48\n", " 49\n", "-50\n", "+new\n", " 51\n", " 52\n", " 53\n",
    ]  # fmt: skip


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.requirement("turn_diff:speed")
def test_long_files_are_quick(same: bool) -> None:
    old = ["the same\n" if same and n % 3 else f"line {n}\n" for n in range(100_000)]
    new = [f"changed {n}\n" if n % 200 == 100 else line for n, line in enumerate(old)]
    began = time.process_time()
    lines = list(hunks(old, new))
    assert time.process_time() - began < 2
    assert sum(line.startswith("+changed") for line in lines) == 500
