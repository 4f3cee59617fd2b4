"""Each policy under each sandbox: what runs, what is asked about, what never runs, and what comes of it."""

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import pytest

from bascule.agent.actions import CallServer, RunCommand
from bascule.agent.approvals.ask import Choice, Question, Reply
from bascule.agent.approvals.policy import Approval, ApprovalPolicy
from bascule.agent.approvals.rules import Rule, Rules, remember
from bascule.agent.events import Decided
from bascule.services.sandbox import Boundary, Mode
from bascule.toolkit.approval import Allow, Ask, Forbid
from tests.agent.world import World, custom, function, patch, world

pytestmark = pytest.mark.anyio

APPROVALS: list[Approval] = ["untrusted", "on-request", "on-failure", "never"]
MODES: list[Mode] = ["read-only", "workspace-write", "danger-full-access"]


@pytest.fixture
def elsewhere() -> Generator[Path]:
    """A folder that confined commands see, unlike what is below /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


Said = Literal["runs", "asks", "forbidden"]

# What happens to each action, by policy, under read-only, workspace-write, danger-full-access.
TABLE: dict[str, dict[Approval, tuple[Said, Said, Said]]] = {
    "read": {
        "untrusted": ("runs", "runs", "runs"),
        "on-request": ("runs", "runs", "runs"),
        "on-failure": ("runs", "runs", "runs"),
        "never": ("runs", "runs", "runs"),
    },
    "change": {
        "untrusted": ("asks", "asks", "asks"),
        "on-request": ("runs", "runs", "runs"),
        "on-failure": ("runs", "runs", "runs"),
        "never": ("runs", "runs", "runs"),
    },
    "escalated": {
        "untrusted": ("asks", "asks", "asks"),
        "on-request": ("asks", "asks", "runs"),
        "on-failure": ("asks", "asks", "runs"),
        "never": ("forbidden", "forbidden", "runs"),
    },
    "patch": {
        "untrusted": ("asks", "asks", "asks"),
        "on-request": ("asks", "runs", "runs"),
        "on-failure": ("asks", "runs", "runs"),
        "never": ("forbidden", "runs", "runs"),
    },
    "patch outside": {
        "untrusted": ("asks", "asks", "asks"),
        "on-request": ("asks", "asks", "runs"),
        "on-failure": ("asks", "asks", "runs"),
        "never": ("forbidden", "forbidden", "runs"),
    },
    "patch of .git": {
        "untrusted": ("asks", "asks", "asks"),
        "on-request": ("asks", "asks", "runs"),
        "on-failure": ("asks", "asks", "runs"),
        "never": ("forbidden", "forbidden", "runs"),
    },
}


def _call(action: str, it: World) -> Any:
    match action:
        case "read":
            return function("exec_command", {"cmd": "cat old.txt"})
        case "change":
            return function("exec_command", {"cmd": "echo x >> ../outside/made; true"})
        case "escalated":
            arguments = {
                "cmd": "echo x >> ../outside/made",
                "sandbox_permissions": "require_escalated",
            }
            return function("exec_command", {**arguments, "justification": "May I?"})
        case "patch":
            return custom("apply_patch", patch("*** Add File: made", "+x"))
        case "patch outside":
            return custom("apply_patch", patch("*** Add File: ../outside/made", "+x"))
        case _:
            return custom("apply_patch", patch("*** Add File: .git/hooks/made", "+x"))


def _made(action: str, it: World) -> bool:
    place = {"patch": it.folder / "made", "patch of .git": it.folder / ".git/hooks/made"}
    return place.get(action, it.folder.parent / "outside" / "made").exists()


CASES = [
    (action, approval, mode, TABLE[action][approval][at])
    for action in TABLE
    for approval in APPROVALS
    for at, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("action", "approval", "mode", "said"), CASES, ids=str)
@pytest.mark.parametrize("answer", ["yes", "no", None])
@pytest.mark.requirement("approvals:table")
async def test_policy_sandbox_and_outcome(
    tmp_path: Path, action: str, approval: Approval, mode: Mode, said: Said, answer: Choice | None
) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply(answer or "no", "not today" if answer == "no" else None)

    (tmp_path / "outside").mkdir()
    given = None if answer is None else approver
    async with world(tmp_path, mode=mode, approval=approval, approver=given) as it:
        (it.folder / "old.txt").write_text("old\n")
        (it.folder / ".git").mkdir()
        [output] = await it.call(_call(action, it))
        text = output["output"]
        assert len(asked) == (said == "asks" and answer is not None)
        ran = said == "runs" or (said == "asks" and answer == "yes")
        if not ran:
            assert not _made(action, it)
            if said == "forbidden":
                assert "approval policy is never" in text or "rejected by user approval" in text
            elif answer is None:
                assert text == "This needs the user's approval, and nobody is there to be asked."
            else:
                assert text == "The user did not approve this call. not today"
            [decided] = it.of(Decided)
            assert decided.source == ("user" if said == "asks" and answer else "config")
            return
        if action == "read":
            assert text.endswith("old\n")
        elif action == "change":
            # It may run, but not out of its sandbox.
            assert _made(action, it) == (mode == "danger-full-access")
        else:
            assert _made(action, it)


# --- after a failure


@pytest.mark.parametrize("approval", APPROVALS)
@pytest.mark.parametrize("answer", ["yes", "no"])
@pytest.mark.requirement("approvals:on_failure")
async def test_what_the_sandbox_stopped_may_be_tried_again(
    tmp_path: Path, elsewhere: Path, approval: Approval, answer: Choice
) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("yes" if not question.retry else answer)

    async with world(tmp_path, mode="workspace-write", approval=approval, approver=approver) as it:
        said = await it.sh(f"echo x > {elsewhere}/made")
        again = [question for question in asked if question.retry]
        assert len(again) == (approval == "on-failure")
        made = (elsewhere / "made").exists()
        assert made == (approval == "on-failure" and answer == "yes")
        assert ("exited with code 0" in said) == made
        asked.clear()
        await it.sh("exit 3")  # its own failure is no reason to ask
        assert not [question for question in asked if question.retry]


# --- what is remembered


@pytest.mark.requirement("approvals:cached")
async def test_an_approval_for_the_session_is_asked_for_once(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("session")

    async with world(tmp_path, approval="untrusted", approver=approver) as it:
        for _ in range(3):
            assert "exited with code 0" in await it.sh("touch made")
        assert len(asked) == 1
        await it.sh("touch made", workdir="/")  # another folder is another question
        await it.sh("touch other")
        assert len(asked) == 3
        text = patch("*** Add File: a", "+a")
        for _ in range(2):
            await it.call(custom("apply_patch", text))
        assert len(asked) == 4
        await it.call(
            custom("apply_patch", patch("*** Add File: a", "+a", "*** Add File: b", "+b"))
        )
        assert len(asked) == 5


async def test_one_yes_is_for_one_call(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("yes")

    async with world(tmp_path, approval="untrusted", approver=approver) as it:
        for _ in range(2):
            await it.sh("touch made")
        assert len(asked) == 2


@pytest.mark.requirement("approvals:always")
async def test_a_prefix_is_allowed_for_good(tmp_path: Path, elsewhere: Path) -> None:
    asked: list[Question] = []
    path = tmp_path / "rules.toml"

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("always")

    def write(prefix: tuple[str, ...]) -> Rule:
        return remember(path, prefix)

    more = {
        "sandbox_permissions": "require_escalated",
        "prefix_rule": ["touch"],
        "justification": "why",
    }
    async with world(
        tmp_path, mode="workspace-write", approval="on-request", approver=approver, remember=write
    ) as it:
        assert "code 0" in await it.sh(f"touch {elsewhere}/one", **more)
        assert asked[0].choices == ("yes", "session", "always", "no", "abort")
        assert asked[0].why == "why"
        assert "code 0" in await it.sh(f"touch {elsewhere}/two", **more)
        assert len(asked) == 1
        assert 'prefix = ["touch"]' in path.read_text()
        # An allowed command stays in its sandbox unless it asks for more.
        assert "Read-only" in await it.sh(f"touch {elsewhere}/three")


async def test_stopping_the_turn(tmp_path: Path) -> None:
    from tests.agent.world import said, scripted

    async def approver(question: Question) -> Reply:
        return Reply("abort")

    calls = [function("exec_command", {"cmd": cmd}, cmd) for cmd in ("touch x", "sleep 60; cat x")]
    script = scripted(calls, [said("never")])
    async with world(tmp_path, script, approval="untrusted", approver=approver) as it:
        turn = await it.session.turn("go")
        assert (turn.status, turn.error, turn.rounds) == ("interrupted", "stopped by the user", 1)
        assert not (it.folder / "x").exists()
        assert it.session.history.orphans() == []


# --- rules


@pytest.mark.parametrize("approval", APPROVALS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.requirement("approvals:rules:win")
def test_rules_go_before_the_policy(tmp_path: Path, approval: Approval, mode: Mode) -> None:
    rules = Rules(
        [
            Rule(prefix=("make",), decision="allow"),
            Rule(prefix=("git", "push"), decision="prompt", reason="It leaves."),
            Rule(prefix=("rm",), decision="forbid", reason="Never."),
        ]
    )
    boundary = Boundary(mode=mode, workspace=tmp_path, temp=tmp_path)
    policy = ApprovalPolicy(approval=approval, boundary=boundary, rules=rules)

    def verdict(*argv: str, escalated: bool = False) -> Any:
        return policy.verdict(RunCommand(argv=argv, cwd=tmp_path, escalated=escalated))

    assert isinstance(verdict("make", "all"), Allow)
    assert isinstance(verdict("make", "all", escalated=True), Allow)
    assert verdict("rm", "x") == Forbid("Never.")
    prompt = verdict("git", "push")
    assert isinstance(prompt, Forbid) if approval == "never" else prompt == Ask("It leaves.")


@pytest.mark.parametrize("approval", APPROVALS)
@pytest.mark.requirement("approvals:no_sandbox")
def test_without_a_sandbox_all_that_may_change_something_is_asked_about(
    tmp_path: Path, approval: Approval
) -> None:
    boundary = Boundary(mode="workspace-write", workspace=tmp_path, temp=tmp_path)
    policy = ApprovalPolicy(approval=approval, boundary=boundary, sandboxed=False)
    assert isinstance(policy.verdict(RunCommand(argv=("ls",), cwd=tmp_path)), Allow)
    change = policy.verdict(RunCommand(argv=("make",), cwd=tmp_path))
    assert isinstance(change, Forbid if approval == "never" else Ask)


SERVER = {"server": "notes", "tool": "add", "arguments": "{}"}


@pytest.mark.parametrize(
    ("approval", "read_only", "asks", "said"),
    [
        ("untrusted", False, None, Ask),
        ("untrusted", True, None, Allow),
        ("untrusted", False, False, Allow),
        ("on-request", False, None, Allow),
        ("on-request", True, True, Ask),
        ("on-failure", False, True, Ask),
        ("never", False, None, Allow),
        ("never", False, True, Forbid),
    ],
)
@pytest.mark.requirement("approvals:servers")
def test_tools_of_servers(
    tmp_path: Path, approval: Approval, read_only: bool, asks: bool | None, said: type
) -> None:
    boundary = Boundary(mode="workspace-write", workspace=tmp_path, temp=tmp_path)
    policy = ApprovalPolicy(approval=approval, boundary=boundary)
    action = CallServer(**SERVER, read_only=read_only, asks=asks)
    assert isinstance(policy.verdict(action), said)


async def test_a_patch_through_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("one\n")
    async with world(tmp_path, mode="workspace-write") as it:
        (it.folder / "link").symlink_to(tmp_path / "outside")
        (it.folder / "file").symlink_to(tmp_path / "outside" / "f")
        (it.folder / "inner").symlink_to(it.folder)
        for path in (
            "link/f",
            "file",
            "inner/file",
            "../outside/f",
            str(tmp_path / "outside" / "f"),
        ):
            [output] = await it.call(
                custom("apply_patch", patch(f"*** Update File: {path}", "-one", "+1"))
            )
            assert output["output"].startswith("patch rejected: writing outside of the project")
        [inside] = await it.call(
            custom("apply_patch", patch(f"*** Add File: {it.folder}/inner/a", "+a"))
        )
        assert "A a" in inside["output"]
        assert (tmp_path / "outside" / "f").read_text() == "one\n"


@pytest.mark.requirement("patch:changed_meanwhile")
async def test_a_file_that_changes_while_somebody_thinks_is_left_alone(tmp_path: Path) -> None:
    async def approver(question: Question) -> Reply:
        (tmp_path / "work" / "a.txt").write_text("somebody else's\n")
        return Reply("yes")

    async with world(tmp_path, approval="untrusted", approver=approver) as it:
        (it.folder / "a.txt").write_text("one\n")
        [output] = await it.call(
            custom("apply_patch", patch("*** Update File: a.txt", "-one", "+1"))
        )
        assert "'a.txt' was changed meanwhile: read it again" in output["output"]
        assert (it.folder / "a.txt").read_text() == "somebody else's\n"
        assert it.diff == ""


async def test_a_patch_on_a_long_file_through_dispatch(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        lines = [f"line {n}" for n in range(100_000)]
        (it.folder / "long.txt").write_text("\n".join(lines) + "\n")
        body = [
            part for n in range(100, 100_000, 200) for part in ("@@", f"-line {n}", f"+new {n}")
        ]
        [output] = await it.call(custom("apply_patch", patch("*** Update File: long.txt", *body)))
        assert "M long.txt" in output["output"]
        assert (it.folder / "long.txt").read_text().count("new ") == 500
        assert it.diff.count("\n+new ") == 500


@pytest.mark.requirement("approvals:stdin")
async def test_what_is_typed_into_a_command_without_a_sandbox_is_asked_about(
    tmp_path: Path,
) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("no" if "rm" in question.action.shown else "yes")

    async with world(
        tmp_path, mode="workspace-write", approval="on-request", approver=approver
    ) as it:
        shell = {"tty": True, "yield_time_ms": 250}
        await it.sh("cat", **shell, sandbox_permissions="require_escalated", justification="why")
        await it.sh("cat", **shell)
        for session in (1, 2):
            for chars in ("echo hi\n", "rm -rf x\n", "\x03"):
                await it.run("write_stdin", {"session_id": session, "chars": chars})
        assert [question.action.shown for question in asked] == ["cat", "echo hi\n", "rm -rf x\n"]
        assert asked[1].why == "It types this into command 1, which has no sandbox."


async def test_a_prefix_that_is_not_the_commands_is_not_offered(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("no")

    def never(prefix: tuple[str, ...]) -> Rule:
        raise AssertionError(prefix)

    escalated = {"sandbox_permissions": "require_escalated", "prefix_rule": ["bash"]}
    async with world(
        tmp_path, mode="workspace-write", approval="on-request", approver=approver, remember=never
    ) as it:
        await it.sh("touch x", **escalated)
        await it.sh("touch x > y", **{**escalated, "prefix_rule": ["touch"]})
        assert [question.choices for question in asked] == [("yes", "session", "no", "abort")] * 2


SPLIT = {
    "quotes": ["echo '", "touch made", "'"],
    "a heredoc": ["cat <<EOF", "touch made", "EOF"],
    "a comment": ["ls #", "touch made"],
    "a line that goes on": ["echo \\", "touch made"],
}


@pytest.mark.parametrize("commands", SPLIT.values(), ids=SPLIT.keys())
@pytest.mark.requirement("approvals:each")
async def test_several_commands_are_judged_one_by_one(tmp_path: Path, commands: list[str]) -> None:
    call = {"type": "shell_call", "call_id": "call_1", "action": {"commands": commands}}
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("no")

    tools = {"shell": "hosted"}
    async with world(tmp_path, approval="untrusted", approver=approver, tools=tools) as it:
        await it.call(call)
        assert len(asked) == 1
        assert not (it.folder / "made").exists()
    forbidden = Rules([Rule(prefix=("touch",), decision="forbid", reason="Never.")])
    async with world(tmp_path, approval="never", rules=forbidden, tools=tools) as it:
        [output] = await it.call(call)
        assert output["output"][0]["stderr"] == "Never."
        assert not (it.folder / "made").exists()


@pytest.mark.requirement("approvals:shell")
async def test_a_program_that_is_named_like_a_shell_is_not_trusted(tmp_path: Path) -> None:
    async with world(tmp_path, approval="untrusted") as it:
        program = it.folder / "bash"
        program.write_text("#!/bin/sh\ntouch made\n")
        program.chmod(0o755)
        for shell in ("./bash", str(program)):
            said = await it.sh("ls", shell=shell)
            assert said == "This needs the user's approval, and nobody is there to be asked."
        assert not (it.folder / "made").exists()
        assert "exited with code 0" in await it.sh("ls", shell="/bin/bash")


@pytest.mark.requirement("approvals:retry")
async def test_a_yes_to_the_sandbox_is_none_to_doing_without(
    tmp_path: Path, elsewhere: Path
) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("no" if question.retry else "session")

    rules = Rules([Rule(prefix=("touch",), decision="prompt")])
    async with world(
        tmp_path, mode="workspace-write", approval="on-failure", approver=approver, rules=rules
    ) as it:
        for _ in range(2):
            await it.sh(f"touch {elsewhere}/made")
        assert [question.retry for question in asked] == [False, True, True]
        assert not (elsewhere / "made").exists()
