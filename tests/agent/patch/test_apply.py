"""Patches on the disk: as other programs would apply them, and all or nothing."""

import difflib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.agent.patch import apply as module
from bascule.agent.patch.apply import Applier, journals_of
from bascule.agent.patch.files import Disk
from bascule.agent.patch.parse import parse
from bascule.agent.patch.plan import PatchFailed, plan


def run(folder: Path, text: str, between: Callable[[], object] = lambda: None) -> None:
    disk = Disk(folder)
    changes = plan(disk.located(parse(text)), disk)
    between()
    Applier(folder.parent / "journals").apply(changes, disk)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def contents(folder: Path) -> dict[str, bytes | str]:
    """All files, by their path; links by where they lead."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}"
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("one\ntwo\nthree\n")
    (folder / "b.py").write_text("old\n")
    return folder


FOUR = patch(
    *("*** Update File: a.py", "@@", "-two", "+TWO"),
    *("*** Delete File: b.py", "*** Add File: new/deep/c.py", "+content"),
    *("*** Update File: d.py", "*** Move to: e.py", "@@", "-d", "+e"),
)


@pytest.mark.requirement("patch:written")
def test_files_are_added_changed_moved_and_deleted(folder: Path) -> None:
    (folder / "d.py").write_text("d\n")
    (folder / "a.py").chmod(0o750)
    run(folder, FOUR)
    assert contents(folder) == {
        "a.py": b"one\nTWO\nthree\n",
        "e.py": b"e\n",
        "new/deep/c.py": b"content\n",
    }
    assert (folder / "a.py").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("name", ["./a.py", "sub/../a.py", "{folder}/a.py", "link/a.py"])
@pytest.mark.requirement("patch:names")
def test_one_file_has_one_name(folder: Path, name: str) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(folder)
    said = name.format(folder=folder)
    run(
        folder,
        patch("*** Update File: a.py", "-one", "+1", f"*** Update File: {said}", "-two", "+2"),
    )
    assert (folder / "a.py").read_text() == "1\n2\nthree\n"


REFUSED = {
    "a folder": (["*** Update File: sub", "-a", "+b"], "'sub' is a folder"),
    "a folder, deleted": (["*** Delete File: sub"], "'sub' is a folder"),
    "a pipe": (["*** Update File: pipe", "-a", "+b"], "no regular file"),
    "below a file": (["*** Add File: b.py/c", "+x"], "b.py/c"),
    "a link, deleted": (["*** Delete File: link"], "symbolic link"),
    "a link, moved": (["*** Update File: link", "*** Move to: x", "-one", "+1"], "symbolic link"),
    "a missing file": (["*** Delete File: none"], "no such file"),
    "a later section": (["*** Update File: a.py", "-one", "+1", "*** Update File: b.py", "-no", "+x"], "does not have these lines"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "reason"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.requirement("patch:nothing")
def test_what_cannot_be_done_changes_nothing(folder: Path, lines: list[str], reason: str) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("a.py")
    os.mkfifo(folder / "pipe")
    before = {p.name: p.lstat() for p in folder.iterdir()}
    with pytest.raises(PatchFailed, match=reason):
        run(folder, patch(*lines))
    assert {p.name: p.lstat() for p in folder.iterdir()} == before


def test_an_update_through_a_link_changes_what_it_leads_to(folder: Path) -> None:
    (folder / "link.py").symlink_to("a.py")
    run(folder, patch("*** Update File: link.py", "-one", "+1"))
    assert contents(folder)["link.py"] == "-> a.py"
    assert (folder / "a.py").read_text() == "1\ntwo\nthree\n"


@pytest.mark.requirement("patch:changed_meanwhile")
def test_a_file_that_was_changed_meanwhile_is_left_alone(folder: Path) -> None:
    (folder / "d.py").write_text("d\n")
    with pytest.raises(PatchFailed, match=r"'a\.py' was changed meanwhile: read it again"):
        run(folder, FOUR, lambda: (folder / "a.py").write_text("else\n"))
    assert contents(folder) == {"a.py": b"else\n", "b.py": b"old\n", "d.py": b"d\n"}


def test_a_disk_that_is_full_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "d.py").write_text("d\n")
    before = contents(folder)
    calls = 0

    def replace(
        source: str, target: str, real: Callable[..., None] = os.replace, **folders: int
    ) -> None:
        nonlocal calls
        if folders:  # not of the journal
            calls += 1
            if calls == 2:
                raise OSError(28, "No space left on device")
        real(source, target, **folders)

    monkeypatch.setattr(module.os, "replace", replace)
    with pytest.raises(PatchFailed, match=r"No space left on device\. Nothing was changed"):
        run(folder, FOUR)
    assert contents(folder) == before
    assert not (folder / "new").exists()


LINKED = {
    "a new file": ["*** Add File: sub/x.txt", "+x"],
    "an update": ["*** Update File: sub/f.txt", "-one", "+1"],
    "a deletion": ["*** Delete File: sub/f.txt"],
    "a move": ["*** Update File: a.py", "*** Move to: sub/x.txt", "@@", "-one", "+1"],
    "a new folder": ["*** Add File: sub/deep/x.txt", "+x"],
    "the file itself": ["*** Update File: own.txt", "-one", "+1"],
}


@pytest.mark.parametrize("lines", LINKED.values(), ids=LINKED.keys())
@pytest.mark.requirement("patch:links")
def test_a_link_that_takes_a_place_afterwards_leads_nowhere(folder: Path, lines: list[str]) -> None:
    outside = folder.parent / "outside"
    for place in (folder / "sub", outside):
        place.mkdir()
        (place / "f.txt").write_text("one\n")
    (folder / "own.txt").write_text("one\n")
    before = contents(outside)

    def between() -> None:
        (folder / "sub" / "f.txt").unlink()
        (folder / "sub").rmdir()
        (folder / "sub").symlink_to(outside)
        (folder / "own.txt").unlink()
        (folder / "own.txt").symlink_to(outside / "f.txt")

    with pytest.raises(PatchFailed, match="cannot be re"):
        run(folder, patch(*lines), between)
    assert contents(outside) == before
    assert (folder / "a.py").read_text() == "one\ntwo\nthree\n"


@pytest.mark.requirement("patch:crash")
def test_a_crash_between_any_two_writes_leaves_all_old_or_all_new(tmp_path: Path) -> None:
    """A process of its own is ended before its nth change of the disk, for each n until none is left."""
    outcomes: list[str] = []
    for at in range(100):
        folder = tmp_path / str(at) / "work"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text("one\ntwo\nthree\n")
        (folder / "b.py").write_text("old\n")
        (folder / "d.py").write_text("d\n")
        before = contents(folder)
        crashed = _crashing(folder, at)
        Applier(folder.parent / "journals").recover()
        after = contents(folder)
        if after == before:
            outcomes.append("old")
            assert not (folder / "new").exists()
        else:
            assert set(after) == {"a.py", "e.py", "new/deep/c.py"}
            outcomes.append("new")
        if not crashed:
            break
    assert len(outcomes) > 15
    assert outcomes[-1] == "new"
    assert sorted(outcomes, reverse=True) == outcomes


def _crashing(folder: Path, at: int) -> bool:
    """Apply the patch in a child that ends before its nth call which changes the disk."""
    pid = os.fork()
    if pid == 0:
        left = at

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **more: object) -> object:
                nonlocal left
                if left == 0:
                    os._exit(9)
                left -= 1
                return function(*args, **more)

            return call

        for name in ("replace", "link", "unlink", "mkdir", "fchmod", "fchown", "open", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            run(folder, FOUR)
        except BaseException:  # noqa: BLE001 -- a child of the test
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 9)
    return status == 9


def test_what_somebody_wrote_after_the_crash_stays(folder: Path) -> None:
    (folder / "d.py").write_text("d\n")
    at = next(n for n in range(100) if _moved(folder, n))
    assert at
    (folder / "b.py").write_text("somebody else's\n")
    Applier(folder.parent / "journals").recover()
    assert contents(folder) == {
        "a.py": b"one\ntwo\nthree\n",
        "b.py": b"somebody else's\n",
        "d.py": b"d\n",
    }


def _moved(folder: Path, at: int) -> bool:
    """Crash there; whether b.py is gone. Else everything is set back."""
    assert _crashing(folder, at)
    if not (folder / "b.py").exists():
        return True
    Applier(folder.parent / "journals").recover()
    return False


def test_workspaces_have_journals_of_their_own(tmp_path: Path) -> None:
    assert journals_of(tmp_path, tmp_path / "a") != journals_of(tmp_path, tmp_path / "b")


lines_of_text = st.lists(
    st.sampled_from(["a", "b", "  c", "", "d é", "\tx"]), min_size=1, max_size=30
)


@given(lines_of_text, lines_of_text)
@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)
@pytest.mark.requirement("patch:as_others")
def test_it_changes_what_patch_changes(tmp_path: Path, old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{x}\n" for x in old), "".join(f"{x}\n" for x in new)
    diff = list(
        difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f", n=100)
    )
    if not diff:
        return
    body = [line.rstrip("\n") for line in diff[3:]]
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    (folder / "f").write_text(before)
    run(folder, patch("*** Update File: f", "@@", *body))
    ours = (folder / "f").read_text()
    (folder / "f").write_text(before)
    subprocess.run(
        ["patch", "-s", "-p1"], input="".join(diff), cwd=folder, check=True, text=True, timeout=10
    )
    assert ours == (folder / "f").read_text() == after
