"""Patches: what they say, where they fit, and what they make of files."""

import difflib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.agent.patch.parse import MalformedPatch, parse
from bascule.agent.patch.plan import Change, PatchFailed, plan

FILE = b"def a():\n    return 1\n\n\ndef b():\n    return 1\n"


class Memory(dict[str, bytes]):
    """Files in memory."""

    def read(self, path: str) -> bytes | None:
        if path == "folder":
            raise PatchFailed("'folder' is a folder.")
        return self.get(path)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def update(*lines: str, path: str = "a.py") -> str:
    return patch(f"*** Update File: {path}", *lines)


def applied(text: str, content: bytes = FILE, **more: bytes) -> bytes | None:
    """What a patch of one file makes of it."""
    [change] = plan(parse(text), Memory({"a.py": content, **more}))
    return change.after


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        (["@@ def b():", "-    return 1", "+    return 2"], FILE[:-2] + b"2\n"),
        (["@@", "-    return 1", "+    return 2"], FILE.replace(b"1", b"2", 1)),
        (["-    return 1", "+    return 2"], FILE.replace(b"1", b"2", 1)),
        (["", "-    return 1", "+    return 2", ""], FILE.replace(b"1", b"2", 1)),
        ([" def b():", "-    return 1", "+    return 2"], FILE[:-2] + b"2\n"),
        (["-    return 1", "+    return 2", "*** End of File"], FILE[:-2] + b"2\n"),
        (["@@ def a():", "@@     return 1", "+    # more"], FILE.replace(b"1\n", b"1\n    # more\n", 1)),
        (["+# the end"], FILE + b"# the end\n"),
        (["@@ def a():", "-    return 1", "+    return 2", "@@ def b():", "-    return 1"],
         b"def a():\n    return 2\n\n\ndef b():\n"),
        ([" def a():", "-    return 1", "+    return 2", " ", " "], FILE.replace(b"1", b"2", 1)),
    ],
)  # fmt: skip
@pytest.mark.requirement("patch:accepted")
def test_where_changes_go(lines: list[str], result: bytes) -> None:
    assert applied(update(*lines)) == result


@pytest.mark.parametrize(
    ("content", "old"),
    [
        ("  x = 1\n", "  x = 1"),
        ("  x = 1   \n", "  x = 1"),
        ("x = 1\n", "    x = 1 "),
        ("s = \u201ca\u201d \u2014 b\u00a0c\n", 's = "a" - b c'),
    ],
    ids=[
        "exactly",
        "without spaces at the end",
        "without spaces around",
        "with signs that look alike",
    ],
)
@pytest.mark.requirement("patch:levels")
def test_lines_are_found_as_they_were_meant(content: str, old: str) -> None:
    before = f"first\n{content}last\n".encode()
    assert applied(update(f"-{old}", "+new"), before) == b"first\nnew\nlast\n"
    # A line that is context keeps its own bytes.
    kept = applied(update(" first", f" {old}", "+new"), before)
    assert kept == f"first\n{content}new\nlast\n".encode()


@pytest.mark.requirement("patch:levels")
def test_the_stricter_level_counts() -> None:
    assert applied(update("-x", "+y"), b"  x\nx\n") == b"  x\ny\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nnew\r\nc\r\n"),
        (b"a\nb\nc", b"a\nnew\nc"),
        (b"a\nb", b"a\nnew"),
        (b"\xff\xfe a\nb\n\x80\n", b"\xff\xfe a\nnew\n\x80\n"),
        (b"a\x0cz\nb\n", b"a\x0cz\nnew\n"),
        (b"a\nb\r\nc\n", b"a\nnew\nc\n"),
    ],
)
@pytest.mark.requirement("patch:bytes")
def test_what_is_not_changed_keeps_its_bytes(before: bytes, after: bytes) -> None:
    assert applied(update("-b", "+new"), before) == after


@pytest.mark.requirement("patch:bytes")
def test_lines_behind_a_last_one_without_an_end() -> None:
    assert applied(update(" b", "+c"), b"a\nb") == b"a\nb\nc"
    assert applied(update("+x"), b"") == b"x\n"


@pytest.mark.requirement("patch:accepted")
def test_files_that_come_go_and_move() -> None:
    files = Memory({"a.py": FILE, "old.txt": b"x\n", "here.txt": b"one\n"})
    text = patch(
        "*** Add File: new/b.txt",
        "+hello",
        "+",
        "+world",
        "*** Delete File: old.txt",
        "*** Update File: here.txt",
        "*** Move to: there.txt",
        "-one",
        "+two",
        "*** Update File: there.txt",
        "+three",
        "",
        "*** Update File: a.py",
        "*** Move to: z.py",
    )
    assert plan(parse(text), files) == [
        Change("new/b.txt", None, b"hello\n\nworld\n"),
        Change("old.txt", b"x\n", None),
        Change("here.txt", b"one\n", None),
        Change("there.txt", None, b"two\nthree\n", "here.txt"),
        Change("a.py", FILE, None),
        Change("z.py", None, FILE, "a.py"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        update("-b", "+c"),
        f"<<'EOF'\n{update('-b', '+c')}\nEOF\n",
        f"apply_patch <<EOF\n{update('-b', '+c')}\nEOF",
        f'<<"PATCH"\n{update("-b", "+c")}\nPATCH',
        f"  \n{update('-b', '+c')}\n\n",
        update("-b", "+c").replace("\n", "\r\n"),
        update("-b", "+c").replace("*** Update File: ", "  *** Update File:  "),
    ],
)
@pytest.mark.requirement("patch:accepted")
def test_what_may_stand_around_it(text: str) -> None:
    assert applied(text, b"a\nb\n") == b"a\nc\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "first line"),
        ("*** Begin Patch ***\n*** End Patch", "first line"),
        ("*** Begin Patch\n*** Delete File: a.py", "last line"),
        ("*** Begin Patch", "last line"),
        (patch(), "patch is empty"),
        (patch("hello"), "Line 2: 'hello' begins no file"),
        (patch("*** Add File: x"), "has no lines"),
        (patch("*** Add File: ", "+a"), "has no name"),
        (patch("*** Update File: a.py"), "changes nothing"),
        (update(" context only"), "neither adds nor removes"),
        (update("-a", "?b"), "Line 4: '?b' must begin with"),
        (update("@@"), "neither adds nor removes"),
    ],
)
@pytest.mark.requirement("patch:refused")
def test_malformed_patches(text: str, words: str) -> None:
    with pytest.raises(MalformedPatch) as told:
        parse(text)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (update("-nowhere", "+x"), "does not have these lines where they are looked for:\nnowhere"),
        (update("@@ class X:", "+x"), "does not have the line 'class X:'"),
        (update("@@ def b():", "-def a():", "+x"), "does not have these lines"),
        (update("-a", path="missing.py"), "'missing.py' cannot be updated: there is no such file."),
        (patch("*** Delete File: missing.py"), "cannot be deleted"),
        (patch("*** Delete File: folder"), "is a folder"),
        (patch("*** Delete File: a.py", "*** Update File: a.py", "-x"), "cannot be updated"),
    ],
)
@pytest.mark.requirement("patch:refused")
def test_patches_that_fit_nowhere(text: str, words: str) -> None:
    with pytest.raises(PatchFailed) as told:
        plan(parse(text), Memory({"a.py": FILE}))
    assert words in str(told.value)


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  a", "x = 1", "}"]), max_size=30)


@pytest.mark.requirement("patch:bytes")
@settings(max_examples=300, deadline=None)
@given(LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_patch_of_any_change(old: list[str], new: list[str], end: str, ended: bool) -> None:
    """Made by difflib with all of the file as context, so that each place is sure."""
    lines: list[str] = []
    for line in difflib.ndiff(
        [f"{i}{t}" for i, t in enumerate(old)], [f"{i}{t}" for i, t in enumerate(new)]
    ):
        if line[0] in " -+":
            lines.append(line[0] + line[2:])
    if all(line[0] == " " for line in lines):
        return
    before = end.join([*(f"{i}{t}" for i, t in enumerate(old)), ""]).encode()
    after = end.join([*(f"{i}{t}" for i, t in enumerate(new)), ""]).encode()
    if not ended and old:
        before = before.removesuffix(end.encode())
        after = after.removesuffix(end.encode())
    if b"\n" not in before:  # which does not say how its lines end
        after = after.replace(b"\r\n", b"\n")
    if not new:
        after = b""
    assert applied(update(*lines), before) == after


@pytest.mark.requirement("patch:speed")
def test_five_hundred_changes_of_a_large_file() -> None:
    lines = [f"line {n} of many" for n in range(100_000)]
    changes: list[str] = []
    for n in range(0, 100_000, 200):
        changes += ["@@", f" line {n} of many", f"-line {n + 1} of many", f"+changed {n + 1}"]
    text, content = update(*changes), "\n".join([*lines, ""]).encode()
    begun = time.process_time()
    after = applied(text, content)
    spent = time.process_time() - begun
    assert after is not None
    assert after.count(b"changed") == 500
    assert spent < 1.0
