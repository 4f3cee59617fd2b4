"""What a request says that could be an argument: places, numbers, quoted strings, paths and so on."""

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "url", "email", "path", "date", "time", "number", "expression", "quoted", "code", "place", "name",
    "identifier",
]  # fmt: skip

_NAME = r"[^\W\d_a-z][\w'’.-]*[\w]"
_NAMES = rf"{_NAME}(?: (?:of |de |la |the )?{_NAME})*(?:, {_NAME})?"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_OPERATOR = r"(?:\*\*|[-+*/%^×÷])"

PATTERNS: dict[Kind, re.Pattern[str]] = {
    "url": re.compile(r"https?://[^\s<>\"'`)\]]+[^\s<>\"'`)\].,;:!?]"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "code": re.compile(r"```(?:\w*\n)?(.+?)```|`([^`]+)`", re.DOTALL),
    "quoted": re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)"),
    "path": re.compile(
        r"(?<![\w:/])(?:~|\.{1,2})?/[\w.+@/-]*[\w/]|(?<![\w@/.])[\w-][\w/-]*(?:\.[\w-]+)*\.[a-z]{1,5}\b(?![\w@])"
    ),
    "date": re.compile(
        rf"\b\d{{4}}-\d\d-\d\d\b|\b{_MONTH} \d{{1,2}}(?:, \d{{4}})?\b|\b\d{{1,2}} {_MONTH}(?: \d{{4}})?\b"
        r"|\b(?:today|tomorrow|yesterday|tonight)\b"
        r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
    ),
    "time": re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?\b|\b\d{1,2} ?[ap]m\b", re.IGNORECASE),
    "expression": re.compile(
        rf"\(*{_NUMBER}\)*(?:\s*{_OPERATOR}\s*\(*{_NUMBER}\)*)+|sqrt\([^)]*\)"
    ),
    "identifier": re.compile(r"\b[A-Z]{1,6}[-_]?\d[\w-]*\b|#\d+\b"),
    "number": re.compile(rf"(?<![\w.:-]){_NUMBER}(?![\w:]|\.\d|-\d)"),
    "place": re.compile(
        rf"\b(?:in|at|near|around|for|to|from|of|between|visit)\s+(?:the city of\s+)?({_NAMES})"
    ),
    "name": re.compile(rf"(?<![.!?]\s)(?<!^)\b({_NAMES})"),
}
_LOWER_PLACE = re.compile(r"\b(?:in|near|at)\s+((?!the\b|a\b|an\b|my\b|about\b)[a-z]{3,})\b")
_COUNTS = {
    word: str(number)
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
}


class Facts:
    """The facts of one text. A fact that was taken is not given again while there are others."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self._found = {kind: list(_find(kind, self.text)) for kind in PATTERNS}
        self._taken: dict[Kind, int] = {}

    def all(self, kind: Kind) -> list[str]:
        """Every fact of the kind, in order."""
        return self._found[kind]

    def after(self, *prepositions: str) -> list[str]:
        """The names that follow one of these words."""
        found = re.findall(rf"\b(?:{'|'.join(prepositions)})\s+({_NAMES}|[a-z]{{4,}})", self.text)
        return [str(name) for name in found]

    def next(self, kind: Kind) -> list[str]:
        """The facts of the kind, those that were not taken yet first."""
        found = self._found[kind]
        at = self._taken.get(kind, 0) % len(found) if found else 0
        return found[at:] + found[:at]

    def take(self, kind: Kind) -> None:
        """The first of `next` has been used."""
        self._taken[kind] = self._taken.get(kind, 0) + 1

    def beside(self, name: str) -> list[str]:
        """Values written next to a name: `width 3`, `width=3`, `width: "x"`."""
        spaced = r"[\s_-]*".join(re.escape(part) for part in re.split(r"[\s_-]+", name) if part)
        if not spaced:
            return []
        pattern = (
            rf"\b{spaced}\b\s*(?:=|:|\bis\b|\bof\b|\bto\b|\bas\b)?\s*"
            rf"(\"[^\"]+\"|{_NUMBER}|{_NAMES}|(?<=[=:])\s*[^\s,;]+|(?<=[=:]\s)[^\s,;]+)"
        )
        found = re.findall(pattern, self.text, re.IGNORECASE)
        return [str(value).strip().strip('"') for value in found]


def _find(kind: Kind, text: str) -> Iterator[str]:
    seen: set[str] = set()
    for match in PATTERNS[kind].finditer(text):
        value = next((group for group in match.groups() if group), match.group()).strip()
        if value and value not in seen and not (kind == "expression" and _only_dashes(value)):
            seen.add(value)
            yield value
    if kind == "place" and not seen:
        alone = re.match(rf"(?:the )?({_NAMES})(?:[.?!]*$| (?:in|at|on|today|tomorrow)\b)", text)
        places = [alone[1].rstrip(".")] if alone else _LOWER_PLACE.findall(text)
        yield from (str(place) for place in places)
    if kind == "number" and not seen:
        yield from (_COUNTS[word] for word in re.findall(r"\w+", text.lower()) if word in _COUNTS)


def _only_dashes(value: str) -> bool:
    """A date, a range or a telephone number rather than something to calculate."""
    return re.fullmatch(r"\d+(?:-\d+)+", value) is not None
