"""Rules for commands by how they begin, from files: allow, prompt or forbid."""

import shlex
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bascule.agent.approvals.script import Script
from bascule.config import ConfigError

Decision = Literal["allow", "prompt", "forbid"]
_STRICTNESS: Final = {"allow": 0, "prompt": 1, "forbid": 2}


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prefix` are the words that a command begins with; a list among them means any of its words.
    `match` and `not_match` are examples, checked when the file is read."""

    prefix: tuple[str | tuple[str, ...], ...]
    decision: Decision
    reason: str | None = None
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()

    def matches(self, words: Sequence[str]) -> bool:
        if len(words) < len(self.prefix):
            return False
        # What is not allowed is not allowed under the program's full path either.
        name = words[0] if self.decision == "allow" else words[0].rsplit("/", 1)[-1]
        for wanted, word in zip(self.prefix, (name, *words[1:]), strict=False):
            if word != wanted and (isinstance(wanted, str) or word not in wanted):
                return False
        return True


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rules: tuple[Rule, ...] = ()


class Rules:
    """All rules there are. The strictest that matches counts."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = list(rules)

    def add(self, rule: Rule) -> None:
        self._rules.append(rule)

    def rule_of(self, script: Script) -> Rule | None:
        """What is said of a script: forbidden or asked about if one of its commands is; allowed if all
        are and it is nothing but commands. None where nothing is said."""
        found = [self._of(words) for words in script.commands]
        said = [rule for rule in found if rule is not None]
        strictest = max(said, key=lambda rule: _STRICTNESS[rule.decision], default=None)
        if strictest is None or strictest.decision != "allow":
            return strictest
        return strictest if script.plain and len(said) == len(found) else None

    def _of(self, words: Sequence[str]) -> Rule | None:
        matching = [rule for rule in self._rules if rule.matches(words)]
        return max(matching, key=lambda rule: _STRICTNESS[rule.decision], default=None)


def load(paths: Iterable[Path]) -> Rules:
    """The rules of files; one that is not there has none. Raises ConfigError."""
    rules: list[Rule] = []
    for path in paths:
        try:
            rules += _read(path)
        except FileNotFoundError:
            continue
        except OSError as e:
            raise ConfigError(f"cannot read {path}: {e.strerror}") from None
    return Rules(rules)


def _read(path: Path) -> Sequence[Rule]:
    try:
        tree: dict[str, Any] = tomllib.loads(path.read_text())
        rules = msgspec.convert(tree, _File).rules
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} is not valid TOML: {e}") from None
    except msgspec.ValidationError as e:
        raise ConfigError(f"{path}: {e}") from None
    for i, rule in enumerate(rules):
        if not rule.prefix:
            raise ConfigError(f"{path}: rules[{i}].prefix is empty")
        for wanted, examples in ((True, rule.match), (False, rule.not_match)):
            for example in examples:
                if rule.matches(shlex.split(example)) is not wanted:
                    said = "does not match" if wanted else "matches"
                    raise ConfigError(f"{path}: rules[{i}] {said} its example '{example}'")
    return rules


def remember(path: Path, prefix: Sequence[str]) -> Rule:
    """Write a rule that allows commands with this beginning to the end of a file. Raises OSError."""
    rule = Rule(prefix=tuple(prefix), decision="allow")
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ", ".join(msgspec.json.encode(word).decode() for word in prefix)
    with path.open("a") as file:
        file.write(f'\n[[rules]]\nprefix = [{words}]\ndecision = "allow"\n')
    return rule
