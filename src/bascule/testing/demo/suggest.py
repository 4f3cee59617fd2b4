"""Which facts of a request suit which parameter."""

from collections.abc import Iterator
from typing import Any, cast

from bascule.testing.demo.facts import PATTERNS, Facts, Kind
from bascule.testing.demo.words import STOP, stem, stems, words
from bascule.testing.steps import Json

CUES: dict[str, tuple[Kind, ...]] = {
    "url uri link website webpage page href": ("url",),
    "email recipient mailbox": ("email",),
    "path file filename filepath directory folder dir cwd": ("path", "quoted", "code"),
    "date day deadline birthday": ("date",),
    "time hour clock": ("time", "date"),
    "city location place country town address region where capital destination origin": (
        "place",
        "quoted",
    ),
    "timezone tz zone": ("place",),
    "expression formula equation calculation math": ("expression", "quoted", "code"),
    "code script program source snippet python javascript": ("code", "expression", "quoted"),
    "command cmd shell bash": ("code", "quoted"),
    "id identifier number ticket order": ("identifier", "number"),
    "name title person author company product user language": ("quoted", "name", "place"),
    "query question prompt search keyword topic term subject": ("quoted",),
    "text message content body input string note": ("quoted", "code"),
}
_KINDS = {stem(word): kinds for cue, kinds in CUES.items() for word in cue.split()}
_FREE = frozenset(
    stem(word)
    for word in [
        "query",
        "question",
        "prompt",
        "search",
        "keyword",
        "topic",
        "term",
        "subject",
        "text",
        "message",
        "content",
        "body",
        "input",
        "string",
        "note",
        "command",
        "cmd",
        "code",
        "script",
        "task",
        "instructions",
        "description",
    ]
)
_FORMATS: dict[str, Kind] = {
    "uri": "url", "email": "email", "date": "date", "date-time": "date", "time": "time",
}  # fmt: skip
_FROM = frozenset(stem(word) for word in ["from", "origin", "source", "departure", "start"])
_TO = frozenset(
    stem(word) for word in ["to", "destination", "target", "arrival", "end", "recipient"]
)
_NEGATIONS = frozenset(("not", "no", "without", "don", "disable", "never"))
_ARGV = frozenset(stem(word) for word in ["command", "cmd", "argv", "args"])
_LED = frozenset(
    stem(word)
    for word in [
        "query",
        "question",
        "search",
        "keyword",
        "topic",
        "command",
        "cmd",
        "prompt",
        "text",
        "message",
    ]
)
_FILLERS = frozenset(
    [
        "the",
        "a",
        "command",
        "web",
        "on",
        "for",
        "about",
        "that",
        "run",
        "execute",
        "search",
        "up",
        "of",
    ]
)
_LEADS = frozenset(
    [
        "for",
        "about",
        "that",
        "saying",
        "run",
        "execute",
        "search",
        "find",
        "say",
        "query",
        "up",
        "of",
    ]
)


class RequestSuggestions:
    """Suggests values from a part of a request, then from the whole of it."""

    def __init__(self, clause: str, whole: str) -> None:
        self.clause = Facts(clause)
        self._whole = Facts(whole)
        self._stems = frozenset(stems(clause)) | frozenset(words(clause))

    def values(self, name: str, schema: Json, required: bool) -> Iterator[Any]:
        """Best first. For an optional parameter only what is written for it."""
        yield from self._enum(schema)
        beside = self.clause.beside(name.replace("_", " ")) + self.clause.beside(name)
        yield from beside
        if _is_boolean(schema):
            yield from self._flag(name)
            return
        kinds = kinds_of(name, schema)
        yield from self._directed(name, kinds)
        if _is_number(schema):
            if required:
                yield from self.clause.next("number")
                yield from self._whole.next("number")
            return
        sought: list[Kind] = [kind for kind in kinds if required or kind in _SURE]
        for kind in sought:
            yield from self.clause.next(kind)
            yield from self._whole.next(kind)
        if required and not _is_composite(schema):
            yield from self._free(name, schema)

    def many(self, name: str, schema: Json) -> Iterator[Any]:
        """All facts of the first kind that there is, for the entries of an array."""
        named = list(self._enum(schema))
        if named or _is_composite(schema):
            yield from named
        elif {stem(word) for word in words(name)} & _ARGV:
            yield from (_after_lead(self.clause.text) or self.clause.text).split()
        else:
            yield from self._all(name, schema)

    def _all(self, name: str, schema: Json) -> list[str]:
        kinds: tuple[Kind, ...] = kinds_of(name, schema) or ("quoted", "identifier", "name")
        for kind in ("number",) if _is_number(schema) else kinds:
            facts = self.clause.all(kind) or self._whole.all(kind)
            if kind == "place":
                facts = max(facts, self.clause.all("name"), key=len)
            if facts:
                return facts
        return []

    def used(self, name: str, value: Any) -> None:
        """The fact is spent: the next parameter of its kind gets another."""
        for kind in PATTERNS:
            if value in self.clause.all(kind):
                self.clause.take(kind)

    def _enum(self, schema: Json) -> Iterator[Any]:
        members: list[Any] = schema.get("enum") or schema.get("items", {}).get("enum", ())
        for member in members:
            if isinstance(member, str) and member:
                parts = words(member)
                if parts and all(
                    part in self._stems or stem(part) in self._stems for part in parts
                ):
                    yield member

    def _flag(self, name: str) -> Iterator[bool]:
        said = [word for word in words(name) if word not in STOP] or words(name)
        if said and all(word in self._stems or stem(word) in self._stems for word in said):
            yield not (self._stems & _NEGATIONS)

    def _directed(self, name: str, kinds: tuple[Kind, ...]) -> Iterator[str]:
        named = {stem(word) for word in words(name)}
        if named & _FROM and not named & {"url", "email"}:
            yield from self.clause.after("from")
        elif named & _TO and "place" in kinds:
            yield from self.clause.after("to")

    def _free(self, name: str, schema: Json) -> Iterator[str]:
        facts = self.clause
        yield from facts.next("quoted")
        named = {stem(word) for word in words(name)}
        if named & _FREE:
            matter = _after_lead(facts.text) if named & _LED else None
            yield matter or facts.text
        yield from facts.next("name")
        yield from facts.next("identifier")
        content = [word for word in facts.text.split() if word.lower().strip(".,?!") not in STOP]
        if content:
            yield content[-1].strip(".,?!\"'")


_SURE: frozenset[Kind] = frozenset(("url", "email", "path", "date", "time", "code", "expression"))


def kinds_of(name: str, schema: Json) -> tuple[Kind, ...]:
    """The kinds of fact that a parameter takes, by its format, its name, then its description."""
    form = _FORMATS.get(schema.get("format", ""))
    if form is not None:
        return (form,)
    for text in (name, str(schema.get("description", ""))):
        for word in reversed(words(text)) if text == name else words(text):
            kinds = _KINDS.get(stem(word))
            if kinds is not None:
                return kinds
    return ()


def is_free(name: str) -> bool:
    """Whether a parameter takes running text."""
    return bool({stem(word) for word in words(name)} & _FREE)


def _after_lead(text: str) -> str | None:
    """What follows the word that introduces the matter itself."""
    pieces = text.split()
    for at, piece in enumerate(pieces[:-1]):
        if piece.lower().strip(":,") in _LEADS:
            rest = pieces[at + 1 :]
            while len(rest) > 1 and rest[0].lower() in (
                *_LEADS,
                "the",
                "a",
                "command",
                "web",
                "on",
            ):
                rest = rest[1:]
            return " ".join(rest).rstrip("?!.")
    return None


def _types(schema: Json) -> set[str]:
    wanted: Any = schema.get("type", ())
    found = {wanted} if isinstance(wanted, str) else set(wanted)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if isinstance(part, dict):
            found |= _types(cast("Json", part))
    return found - {"null"}


def _is_number(schema: Json) -> bool:
    return bool(_types(schema)) and _types(schema) <= {"number", "integer"}


def _is_boolean(schema: Json) -> bool:
    return _types(schema) == {"boolean"}


def _is_composite(schema: Json) -> bool:
    return bool(_types(schema)) and _types(schema) <= {"object", "array"}
