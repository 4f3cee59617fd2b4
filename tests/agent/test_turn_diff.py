"""The diff of a turn: what git makes of it, it is."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.agent.patch.plan import Change
from bascule.agent.turn_diff import TurnDiffTracker


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def apply(folder: Path, diff: str) -> None:
    for check in ("--check", "--index"):
        done = subprocess.run(
            ["git", "apply", check, "-"],
            input=diff.encode("utf-8", "surrogateescape"),
            cwd=folder,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr.decode()}\n{diff}"


def repository(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, files)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


BEFORE = {
    "a.txt": b"one\ntwo\nthree\n",
    "no end.txt": b"one\ntwo",
    "gone.txt": b"x\n",
    "old/name.txt": "".join(f"{n}\n" for n in range(50)).encode(),
    "st\u00e4nge \"q\".txt": b"y\n",
    "tab\t.txt": b"t\n",
}  # fmt: skip
AFTER = {
    "a.txt": b"one\n2\nthree\n",
    "no end.txt": b"1\ntwo",
    "new/empty.txt": b"",
    "new/file.txt": b"new",
    "new/name.txt": BEFORE["old/name.txt"].replace(b"25\n", b"five and twenty\n"),
    "st\u00e4nge \"q\".txt": b"z\n",
    "tab\t.txt": b"T\n",
}  # fmt: skip


@pytest.mark.requirement("turn_diff:git")
def test_git_applies_it(tmp_path: Path) -> None:
    tracker = TurnDiffTracker()
    changes = [
        Change(name, BEFORE.get(name), AFTER.get(name))
        for name in ("a.txt", "no end.txt", "gone.txt", "new/empty.txt", "new/file.txt", "st\u00e4nge \"q\".txt", "tab\t.txt")
    ]  # fmt: skip
    changes += [
        Change("old/name.txt", BEFORE["old/name.txt"], None),
        Change("new/name.txt", None, AFTER["new/name.txt"], moved_from="old/name.txt"),
    ]
    tracker.changed(changes)
    diff = tracker.diff()
    repository(tmp_path / "r", BEFORE)
    apply(tmp_path / "r", diff)
    assert contents(tmp_path / "r") == AFTER
    assert "rename from old/name.txt\nrename to new/name.txt\n" in diff
    # git names the contents as we do.
    subprocess.run(["git", "add", "-A"], cwd=tmp_path / "r", check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=tmp_path / "r", capture_output=True, text=True, check=True
    ).stdout
    blob = next(line.split()[1] for line in listed.splitlines() if line.endswith("\ta.txt"))
    assert f"..{blob} 100644" in diff


def test_what_came_and_went_is_nothing() -> None:
    tracker = TurnDiffTracker()
    tracker.changed([Change("a", None, b"x\n")])
    assert tracker.diff()
    tracker.changed([Change("a", b"x\n", None)])
    assert tracker.diff() == ""
    tracker.changed([Change("b", b"1\n", b"2\n")])
    tracker.changed([Change("b", b"2\n", b"1\n")])
    assert tracker.diff() == ""


def test_the_beginning_counts_over_several_patches() -> None:
    tracker = TurnDiffTracker()
    tracker.changed([Change("a", b"1\n", b"2\n")])
    tracker.changed([Change("a", b"2\n", None), Change("b", None, b"3\n", moved_from="a")])
    tracker.changed([Change("b", b"3\n", None), Change("c", None, b"4\n", moved_from="b")])
    diff = tracker.diff()
    assert "rename from a\nrename to c\n" in diff
    assert "-1\n+4\n" in diff
    assert diff.count("diff --git") == 1


def test_what_is_no_text_is_told_as_binary() -> None:
    tracker = TurnDiffTracker()
    tracker.changed([Change("a", b"\xff\n", b"\xfe\n")])
    assert tracker.diff().endswith("Binary files a/a and b/a differ\n")


NAMES = ["a", "b", "c"]
CONTENTS = st.sampled_from([b"1\n", b"1\n2\n3\n4\n5\n6\n7\n8\n", b"x", b"1\n2\n3\n4\n5\n6\n7\n9\n"])


@given(st.data())
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.requirement("turn_diff:any")
def test_whatever_is_done_the_diff_leads_there(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    before = {name: data.draw(CONTENTS) for name in NAMES if data.draw(st.booleans())}
    now, tracker = dict(before), TurnDiffTracker()
    for _ in range(data.draw(st.integers(1, 5))):
        name, content = data.draw(st.sampled_from(NAMES)), data.draw(CONTENTS)
        if name in now and data.draw(st.booleans()):
            to = data.draw(st.sampled_from([n for n in NAMES if n != name]))
            if data.draw(st.booleans()):
                tracker.changed([Change(name, now.pop(name), None)])
                continue
            changes = [
                Change(name, now[name], None),
                Change(to, now.get(to), content, moved_from=name),
            ]
            del now[name]
            now[to] = content
            tracker.changed(changes)
        else:
            tracker.changed([Change(name, now.get(name), content)])
            now[name] = content
    diff = tracker.diff()
    if now == before:
        assert diff == "" or "rename" in diff
    if diff:
        folder = tmp_path_factory.mktemp("r")
        repository(folder, before)
        apply(folder, diff)
        assert contents(folder) == now
