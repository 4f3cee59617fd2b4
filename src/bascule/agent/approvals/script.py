"""The commands in a shell's script, as far as they are plain words."""

import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node

SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
_PLAIN: Final = frozenset(
    {"program", "list", "pipeline", "command", "command_name", "word", "string", "raw_string"}
    | {"string_content", "number", "concatenation", "comment"}
)
"""Nodes of a script that does no more than run commands whose words are all written out."""
_SIGNS: Final = frozenset({"&&", "||", ";", "|", "\n", '"', "'"})
_SYSTEM: Final = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})
_WRAPPERS: Final = frozenset(
    {
        "command",
        "doas",
        "env",
        "exec",
        "ionice",
        "nice",
        "nohup",
        "setsid",
        "stdbuf",
        "sudo",
        "time",
    }
    | {"timeout", "xargs"}
)
_MAX: Final = 64 * 1024
"""Characters of a script that is read."""


class Script(msgspec.Struct, frozen=True):
    """`commands` are all that it may run, as words; `plain` says that it does nothing else: no
    redirections, expansions or jobs in the background."""

    commands: tuple[tuple[str, ...], ...]
    plain: bool


def read(argv: Sequence[str]) -> Script:
    """What a command comes to: itself, or the commands of the script that it gives to a shell."""
    script = script_of(argv)
    if script is None:
        return Script(tuple(tuple(words) for words in _with_wrapped(list(argv))), plain=True)
    known = _read(script)
    return known if _is_the_systems(argv[0]) else Script(known.commands, plain=False)


def _is_the_systems(program: str) -> bool:
    """Whether a shell is not just something of this name: a workspace may hold anything."""
    return "/" not in program or program.rpartition("/")[0] in _SYSTEM


def read_all(argvs: Sequence[Sequence[str]]) -> Script:
    """Of several commands, each read by itself."""
    scripts = [read(argv) for argv in argvs]
    return Script(
        tuple(words for script in scripts for words in script.commands),
        plain=all(script.plain for script in scripts),
    )


def script_of(argv: Sequence[str]) -> str | None:
    """What a shell is given with `-c`; None for any other command."""
    if len(argv) == 3 and argv[0].rsplit("/", 1)[-1] in SHELLS and argv[1] in ("-c", "-lc"):
        return argv[2]
    return None


@lru_cache(maxsize=256)
def _read(script: str) -> Script:
    if len(script) > _MAX:
        return Script((), plain=False)
    import tree_sitter_bash  # for the first command, not for the first request
    from tree_sitter import Language, Parser

    tree = Parser(Language(tree_sitter_bash.language())).parse(script.encode())
    root = tree.root_node
    commands = tuple(tuple(words) for words in _commands(root))
    return Script(commands, plain=bool(commands) and not root.has_error and _is_plain(root))


def _commands(node: "Node") -> Iterator[list[str]]:
    if node.type == "command":
        words = [c for c in node.children if c.is_named and c.type != "variable_assignment"]
        yield from _with_wrapped([_word(child) for child in words])
    for child in node.children:
        yield from _commands(child)


def _with_wrapped(words: list[str]) -> Iterator[list[str]]:
    """A command, and those that it does nothing but start."""
    if not any(words):
        return  # the parser has put it where one is missing
    yield words
    name = words[0].rsplit("/", 1)[-1] if words else ""
    if (script := script_of(words)) is not None:
        yield from (list(inner) for inner in _read(script).commands)
    elif name in _WRAPPERS:
        rest = words[1:]
        while rest and (rest[0].startswith("-") or "=" in rest[0] or rest[0][:1].isdigit()):
            rest = rest[1:]
        if rest:
            yield from _with_wrapped(rest)


def _is_plain(node: "Node") -> bool:
    if node.is_named:
        if node.type not in _PLAIN:
            return False
        if node.type == "word" and any(sign in _text(node) for sign in "*?[{~$`"):
            return False  # the shell would make something else of it
    elif node.type not in _SIGNS:
        return False
    return all(_is_plain(child) for child in node.children)


def _word(node: "Node") -> str:
    text = _text(node)
    try:
        words = shlex.split(text)
    except ValueError:
        return text
    return words[0] if len(words) == 1 else text


def _text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")
