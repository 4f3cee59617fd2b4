"""`apply_patch` in each of its shapes, through dispatch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bascule.agent.events import ToolBegan
from bascule.agent.patch.files import Disk
from bascule.agent.patch.plan import Change, PatchFailed
from bascule.agent.session import Session
from bascule.agent.tools.apply_patch import ApplyPatch
from bascule.tools.custom import CustomHandler
from tests.agent.world import Json, custom, function, patch, world

pytestmark = pytest.mark.anyio

TEXT = patch(
    *("*** Add File: new.txt", "+new"),
    *("*** Update File: a.txt", "@@", "-one", "+1"),
    *("*** Update File: b.txt", "*** Move to: c.txt", "@@", "-b", "+c"),
    "*** Delete File: d.txt",
)
DONE = "Success. Updated the following files:\nA new.txt\nM a.txt\nM c.txt\nD d.txt"


def hosted(type_: str, path: str, diff: str | None = None) -> Json:
    operation: Json = {"type": type_, "path": path}
    if diff is not None:
        operation["diff"] = diff
    about = {"type": "apply_patch_call", "id": "apc_1", "status": "completed"}
    return {**about, "call_id": "call_1", "operation": operation}


def files(folder: Path) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_text("b\n")
    (folder / "d.txt").write_text("d\n")


SHAPES: list[tuple[str, Json, str]] = [
    ("custom", custom("apply_patch", TEXT), "custom_tool_call_output"),
    ("custom", custom("apply_patch", f"<<'EOF'\n{TEXT}\nEOF\n"), "custom_tool_call_output"),
    ("function", function("apply_patch", {"input": TEXT}), "function_call_output"),
    ("custom", function("apply_patch", {"input": TEXT}), "function_call_output"),
]


@pytest.mark.parametrize(("shape", "call", "type_"), SHAPES)
@pytest.mark.requirement("apply_patch:shapes")
async def test_a_patch_in_each_shape(tmp_path: Path, shape: str, call: Json, type_: str) -> None:
    async with world(tmp_path, tools={"apply_patch": shape}) as it:
        files(it.folder)
        [output] = await it.call(call)
        assert (output["type"], output["call_id"]) == (type_, "call_1")
        head, said = output["output"].split("Output:\n")
        assert head.startswith("Exit code: 0\nWall time: ")
        assert said == DONE
        found = {p.name: p.read_text() for p in it.folder.iterdir()}
        assert found == {"new.txt": "new\n", "a.txt": "1\ntwo\n", "c.txt": "c\n"}
        [began] = it.of(ToolBegan)
        assert began.action is not None
        assert "rename from b.txt\nrename to c.txt\n" in it.diff


@pytest.mark.requirement("apply_patch:hosted")
async def test_the_shape_that_servers_know(tmp_path: Path) -> None:
    async with world(tmp_path, tools={"apply_patch": "hosted"}) as it:
        files(it.folder)
        outputs: list[Any] = []
        for call in (
            hosted("create_file", "new.txt", "+new\n+lines\n"),
            hosted("create_file", "bare.txt", "bare\n"),
            hosted("update_file", "a.txt", "@@\n-one\n+1\n two\n"),
            hosted("delete_file", "d.txt"),
            hosted("update_file", "a.txt", "@@\n-none\n+1\n"),
            hosted("rename_file", "a.txt"),
            hosted("create_file", "x\n*** Delete File: a.txt", "+x"),
            {**hosted("delete_file", "a.txt"), "operation": {"type": "delete_file"}},
        ):
            outputs += await it.call(call)
        assert {o["type"] for o in outputs} == {"apply_patch_call_output"}
        assert [o["status"] for o in outputs] == ["completed"] * 4 + ["failed"] * 4
        assert outputs[0]["output"] == "Success. Updated the following files:\nA new.txt"
        assert "does not have these lines" in outputs[4]["output"]
        assert "no operation 'rename_file'" in outputs[5]["output"]
        assert "has no path" in outputs[6]["output"]
        assert "missing required field `path`" in outputs[7]["output"]
        found = {p.name: p.read_text() for p in it.folder.iterdir()}
        assert found == {
            "new.txt": "new\nlines\n", "bare.txt": "bare\n", "a.txt": "1\ntwo\n", "b.txt": "b\n",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("*** Begin Patch\n*** End Patch", "patch rejected: empty patch"),
        ("*** Begin Patch ***\n*** End Patch", "apply_patch verification failed: The first line"),
        ("", "apply_patch verification failed: The first line"),
        (patch("*** Update File: a.txt", "@@", "-three", "+3"), "apply_patch verification failed: 'a.txt' does not have these lines"),
        (patch("*** Update File: a.txt"), "apply_patch verification failed: Line"),
        (patch("*** Delete File: ."), "apply_patch verification failed: '.' is a folder."),
    ],
)  # fmt: skip
@pytest.mark.requirement("apply_patch:refused")
async def test_a_patch_that_cannot_be(tmp_path: Path, text: str, told: str) -> None:
    async with world(tmp_path) as it:
        files(it.folder)
        [output] = await it.call(custom("apply_patch", text))
        assert output["output"].startswith(told)
        assert (it.folder / "a.txt").read_text() == "one\ntwo\n"
        assert it.diff == ""


class Recorder:
    """Stands for the applier: whatever comes has been verified."""

    def __init__(self, fault: str | None = None) -> None:
        self.given: list[list[str]] = []
        self.fault = fault

    def apply(self, changes: Sequence[Change], disk: Disk) -> None:
        self.given.append([change.path for change in changes])
        if self.fault:
            raise PatchFailed(self.fault)

    def recover(self) -> list[str]:
        return []


HEREDOC = f"apply_patch <<'EOF'\n{TEXT}\nEOF"
FLOWS: list[Json] = [
    custom("apply_patch", TEXT),
    function("apply_patch", {"input": TEXT}),
    function("exec_command", {"cmd": HEREDOC}),
]


@pytest.mark.parametrize("call", FLOWS, ids=["custom", "function", "shell"])
@pytest.mark.parametrize("fault", [None, "The disk is full."])
@pytest.mark.requirement("apply_patch:verified_first")
async def test_each_flow_verifies_before_it_applies(
    tmp_path: Path, call: Json, fault: str | None
) -> None:
    recorder = Recorder(fault)

    def adjust(session: Session) -> None:
        object.__setattr__(session, "applier", recorder)

    async with world(tmp_path, adjust=adjust) as it:
        [refused] = await it.call(call)  # the files are not there
        assert "apply_patch verification failed: 'a.txt' cannot be updated" in refused["output"]
        assert recorder.given == []
        files(it.folder)
        [output] = await it.call(call)
        assert recorder.given == [["new.txt", "a.txt", "b.txt", "c.txt", "d.txt"]]
        assert ("The disk is full." if fault else DONE) in output["output"]
        assert (it.diff == "") == (fault is not None)


def test_the_whole_grammar_is_one_that_servers_read() -> None:
    declaration = Raw(msgspec.json.encode(ApplyPatch("custom").spec().declaration))
    custom_tool = CustomHandler()
    [tool] = custom_tool.normalize(custom_tool.parse(declaration, "tools[0]"))
    grammar = tool.grammar
    assert grammar is not None

    def fault(text: str) -> str | None:
        check = grammar.check()
        assert check is not None
        return check.finish(grammar.arguments(text))

    assert fault(TEXT) is None
    assert fault(TEXT + "\n") is None
    assert fault("*** Begin Patch\n*** End Patch") is not None
