"""Scripts taken apart, commands that only read, and the user's rules."""

from pathlib import Path

import pytest

from bascule.agent.approvals.rules import Rules, load, remember
from bascule.agent.approvals.safe import is_safe
from bascule.agent.approvals.script import read
from bascule.config import ConfigError


def bash(script: str) -> list[str]:
    return ["/bin/bash", "-c", script]


@pytest.mark.parametrize(
    ("script", "commands", "plain"),
    [
        ("ls -la | wc -l", [["ls", "-la"], ["wc", "-l"]], True),
        ("cd x && cat 'a b' \"c d\"; pwd", [["cd", "x"], ["cat", "a b", "c d"], ["pwd"]], True),
        ("# nothing\nls", [["ls"]], True),
        ("ls > out", [["ls"]], False),
        ("echo $(rm x)", [["echo", "$(rm x)"], ["rm", "x"]], False),
        ("echo `rm x`", [["echo", "`rm x`"], ["rm", "x"]], False),
        ("cat <(rm x)", [["cat", "<(rm x)"], ["rm", "x"]], False),
        ("cat $HOME/x", [["cat", "$HOME/x"]], False),
        ("ls *", [["ls", "*"]], False),
        ("rm x &", [["rm", "x"]], False),
        ("A=1 rm x", [["rm", "x"]], False),
        ("if true; then rm x; fi", [["true"], ["rm", "x"]], False),
        ("f() { rm x; }; f", [["rm", "x"], ["f"]], False),
        ("sudo -n rm x", [["sudo", "-n", "rm", "x"], ["rm", "x"]], True),
        ("env A=1 timeout 5 rm x", [["env", "A=1", "timeout", "5", "rm", "x"], ["timeout", "5", "rm", "x"], ["rm", "x"]], True),
        ("ls | xargs rm", [["ls"], ["xargs", "rm"], ["rm"]], True),
        ("bash -c 'rm x'", [["bash", "-c", "rm x"], ["rm", "x"]], True),
        ("ls &&", [["ls"]], False),
        ("", [], False),
    ],
)  # fmt: skip
@pytest.mark.requirement("approvals:scripts")
def test_what_a_script_may_run(script: str, commands: list[list[str]], plain: bool) -> None:
    found = read(bash(script))
    assert [list(words) for words in found.commands] == commands
    assert found.plain == plain


SAFE = [
    "ls -la", "cat a b", "git status", "git log --oneline -5", "git branch -a", "rg -n foo src", "sed -n 1,20p a.py",
    "sed -n '1,20p' a.py", "find . -name '*.py' -type f", "cd src && ls | head -5", "sort a | uniq -c", "date +%s",
]  # fmt: skip
UNSAFE = [
    "rm x", "ls > x", "find . -delete", "find . -exec rm {} +", "git push", "git branch -D x", "git diff --output=x",
    "git log --ext-diff", "git -c core.pager=x log", "rg --pre x foo", "sed -i s/a/b/ x", "sed -n '1w x' a", "./ls",
    "cat a; rm b", "echo $(rm x)", "sort -o x a", "uniq a b", "python x.py", "awk 'BEGIN{system(\"x\")}'", "sudo ls",
    "tree -o x", "date -s 12:00", "xargs ls", "env ls",
]  # fmt: skip


@pytest.mark.requirement("approvals:safe")
def test_commands_that_only_read_are_known() -> None:
    assert [script for script in SAFE if not is_safe(bash(script))] == []
    assert [script for script in UNSAFE if is_safe(bash(script))] == []
    assert is_safe(["ls", "-la"])
    assert not is_safe(["rm", "x"])


FILE = """
[[rules]]
prefix = ["git", ["status", "diff"]]
decision = "allow"
match = ["git status -s", "git diff"]
not_match = ["git push"]

[[rules]]
prefix = ["git", "push"]
decision = "prompt"
reason = "It leaves the house."

[[rules]]
prefix = ["rm"]
decision = "forbid"
"""


@pytest.mark.parametrize(
    ("script", "decision"),
    [
        ("git status", "allow"),
        ("git diff && git status", "allow"),
        ("git diff > x", None),
        ("git diff && make", None),
        ("git log", None),
        ("git", None),
        ("git push origin", "prompt"),
        ("git status; git push", "prompt"),
        ("rm -rf x", "forbid"),
        ("/bin/rm x", "forbid"),
        ("git push && rm x", "forbid"),
        ("echo $(rm x)", "forbid"),
        ("ls | xargs rm", "forbid"),
        ("sudo rm x", "forbid"),
        ("sh -c 'git status; rm x'", "forbid"),
        ("./git status", None),
    ],
)
@pytest.mark.requirement("approvals:rules")
def test_the_strictest_rule_counts(tmp_path: Path, script: str, decision: str | None) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(FILE)
    rule = load([path, tmp_path / "none.toml"]).rule_of(read(bash(script)))
    assert (rule.decision if rule else None) == decision


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[rules]", "not valid TOML"),
        ('[[rules]]\nprefix = ["a"]\ndecision = "maybe"', "Invalid enum value 'maybe'"),
        ('[[rules]]\nprefix = []\ndecision = "allow"', r"rules\[0\]\.prefix is empty"),
        ('[[rules]]\nprefix = ["a"]\ndecision = "allow"\nother = 1', "unknown field `other`"),
        ('[[rules]]\nprefix = ["a"]\ndecision = "allow"\nmatch = ["b"]', "does not match its example 'b'"),
        ('[[rules]]\nprefix = ["a"]\ndecision = "allow"\nnot_match = ["a b"]', "matches its example 'a b'"),
    ],
)  # fmt: skip
@pytest.mark.requirement("approvals:rules:file")
def test_a_file_that_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        load([path])


def test_what_is_allowed_for_good_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "agent" / "rules.toml"
    remember(path, ["npm", 'run "x"'])
    remember(path, ["make"])
    rules = load([path])
    assert rules.rule_of(read(["npm", 'run "x"', "y"])) is not None
    assert rules.rule_of(read(bash("make all"))) is not None
    assert Rules().rule_of(read(["make"])) is None
