"""Commands that only read: they run without a question where most need one."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bascule.agent.approvals.script import Script, read

Words = Sequence[str]

_ALWAYS: Final = frozenset(
    {"basename", "cat", "cd", "cmp", "comm", "cut", "df", "diff", "dirname", "du", "echo", "expr"}
    | {"false", "file", "grep", "head", "id", "ls", "md5sum", "nl", "paste", "printf", "ps", "pwd"}
    | {
        "readlink",
        "realpath",
        "rev",
        "seq",
        "sha1sum",
        "sha256sum",
        "sleep",
        "stat",
        "tail",
        "test",
    }
    | {"tr", "tree", "true", "uname", "wc", "which", "whoami"}
)
_FIND_ACTS: Final = ("-exec", "-ok", "-delete", "-fls", "-fprint")
_RG_ACTS: Final = ("--pre", "--hostname-bin", "--search-zip", "-z")
_GIT_READS: Final = frozenset(
    {
        "blame",
        "cat-file",
        "describe",
        "diff",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "rev-list",
    }
    | {"rev-parse", "shortlog", "show", "status"}
)
_GIT_ACTS: Final = ("--output", "--ext-diff", "--textconv", "--exec", "--paginate", "-c", "-p")
_SED: Final = re.compile(r"\d+(,\d+)?p")


def is_safe(argv: Words) -> bool:
    """Whether a command, or each command of a shell's plain script, is known to change nothing and to
    start nothing of the workspace's own."""
    return is_safe_script(read(argv))


def is_safe_script(script: Script) -> bool:
    """The same of a script that is read already."""
    return script.plain and all(_is_safe(words) for words in script.commands)


def _is_safe(words: Words) -> bool:
    if not words or "/" in words[0]:
        return False  # a program of the workspace may have any name
    name, given = words[0], words[1:]
    if name in _ALWAYS:
        return name not in _CHECKED or _CHECKED[name](given)
    check = _CHECKED.get(name)
    return check is not None and check(given)


def _none(*forbidden: str) -> Callable[[Words], bool]:
    """No option that begins with one of these."""
    return lambda given: not any(word.startswith(forbidden) for word in given)


def _git(given: Words) -> bool:
    if given[:1] in (["branch"], ("branch",)):
        return all(
            word in ("-a", "-r", "-v", "-vv", "--list", "--show-current") for word in given[1:]
        )
    if not given or given[0] not in _GIT_READS:
        return False
    return not any(word.startswith(_GIT_ACTS) for word in given[1:])


def _sed(given: Words) -> bool:
    return len(given) in (2, 3) and given[0] == "-n" and _SED.fullmatch(given[1]) is not None


def _sort(given: Words) -> bool:
    return not any(
        word.startswith(("-o", "--output", "--compress-program", "-T")) for word in given
    )


def _uniq(given: Words) -> bool:
    return sum(not word.startswith("-") for word in given) <= 1


def _date(given: Words) -> bool:
    return all(word.startswith("+") or word in ("-u", "-I", "-R") for word in given)


def _base64(given: Words) -> bool:
    return not any(word.startswith(("-o", "--output")) for word in given)


_CHECKED: Final[Mapping[str, Callable[[Words], bool]]] = {
    "base64": _base64,
    "date": _date,
    "file": _none("-C", "--compile", "-m", "--magic-file"),
    "find": _none(*_FIND_ACTS),
    "git": _git,
    "rg": _none(*_RG_ACTS),
    "sed": _sed,
    "sort": _sort,
    "tree": _none("-o", "-R"),
    "uniq": _uniq,
}
