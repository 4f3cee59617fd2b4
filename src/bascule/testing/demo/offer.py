"""A declared tool, and how well a text suits it."""

import math
import re
from functools import lru_cache

from bascule.testing.demo.conversation import Tool
from bascule.testing.demo.facts import Facts, Kind
from bascule.testing.demo.schema.resolve import Schema, flat
from bascule.testing.demo.suggest import is_free, kinds_of
from bascule.testing.demo.words import KIN, STOP, stems, words
from bascule.testing.steps import Json

THRESHOLD = 1.75
"""A score from which on a text asks for a tool."""

_BONUS: dict[Kind, float] = {
    "expression": 2, "url": 1.5, "email": 0.5, "path": 1, "place": 0.5, "code": 0.5, "identifier": 0.5,
}  # fmt: skip
_NEEDED: frozenset[Kind] = frozenset(("expression", "url", "email", "identifier"))
_VERBATIM = re.compile(r"```.*?```|`[^`]*`|\"[^\"]*\"|“[^”]*”|https?://\S+", re.DOTALL)


class Offer:
    """A tool with the words that speak for it."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        root = flat(tool.parameters, tool.parameters)
        fields: Json = {} if isinstance(root, bool) else root
        needed: list[str] = fields.get("required", [])
        self.properties = _properties(fields.get("properties", {}), tool.parameters)
        self.required = [(name, part) for name, part in self.properties if name in needed]
        self._vocabulary = self._collect()
        self._name = re.compile(rf"(?<!\w){re.escape(tool.name.lower())}(?!\w)")

    @property
    def finds_tools(self) -> bool:
        """Whether the tool is there to find other tools."""
        named = words(self.tool.name)
        return bool({"tool", "tools"} & set(named)) and bool(
            KIN["search"] & set(stems(self.tool.name))
        )

    def score(self, text: str) -> float:
        """By words in common, and by the facts that its required parameters want."""
        plain = _VERBATIM.sub(" ", text)
        total = self._by_name(plain)
        for word in dict.fromkeys(stems(plain)):
            kin = max((self._vocabulary.get(k, 0.0) for k in KIN.get(word, ())), default=0.0)
            total += max(self._vocabulary.get(word, 0.0), 0.6 * kin)
        facts = facts_of(text)
        if total == 0 and not self._speaks_for_itself(facts):
            return 0.0
        return total + sum(self._fact_score(name, part, facts) for name, part in self.required)

    def _by_name(self, text: str) -> float:
        """A name of several words that stands in the text as it is cannot be chance."""
        name = self.tool.name.lower()
        if name in STOP or not self._name.search(text.lower()):
            return 0.0
        return 10.0 if len(words(self.tool.name)) > 1 else 1.0

    def _fact_score(self, name: str, schema: Json, facts: Facts) -> float:
        kinds = kinds_of(name, schema)
        found = [_BONUS.get(kind, 0.0) for kind in kinds if facts.all(kind)]
        if found:
            return max(found)
        return -1.0 if kinds[:1] and kinds[0] in _NEEDED else 0.0

    def _speaks_for_itself(self, facts: Facts) -> bool:
        firsts = {kind for name, part in self.required for kind in kinds_of(name, part)[:1]}
        evident: tuple[Kind, ...] = ("expression", "url")
        return any(kind in firsts and facts.all(kind) for kind in evident)

    def _collect(self) -> dict[str, float]:
        vocabulary: dict[str, float] = {}

        def put(text: str, weight: float) -> None:
            for word in stems(text):
                vocabulary[word] = max(vocabulary.get(word, 0.0), weight)

        length = len(words(self.tool.description))
        put(self.tool.description, 1 / (1 + math.log2(max(1.0, length / 10))))
        for name, part in self.properties:
            put(str(part.get("description", ""))[:200], 0.4)
            put(name, 0.8)
            for member in part.get("enum", ()):
                put(member if isinstance(member, str) else "", 1.0)
        put(self.tool.name, 3.0)
        return vocabulary

    def wants_more(self, span: str, joined: str) -> bool:
        """Whether one call can use the facts of a part that follows."""
        for name, part in self.required:
            if part.get("type") == "array":
                return True
            quoted = kinds_of(name, part) and facts_of(joined).all("quoted")
            if is_free(name) and not quoted:
                return True
        kinds: tuple[Kind, ...] = ("number", "place", "quoted", "path", "email")
        for kind in kinds:
            before, after = len(facts_of(span).all(kind)), len(facts_of(joined).all(kind))
            takers = sum(_takes(name, part, kind) for name, part in self.required)
            if before < takers and before < after:
                return True
        return False

    def main_kinds(self) -> set[Kind]:
        """The kinds of fact that another call of this tool would be about."""
        kinds: set[Kind] = set()
        for name, part in self.required or self.properties:
            kinds.update(kinds_of(name, part) or ("quoted", "name", "identifier"))
            if part.get("type") in ("number", "integer"):
                kinds.add("number")
        return kinds


@lru_cache(maxsize=128)
def facts_of(text: str) -> Facts:
    """The facts of a text, to be looked at only."""
    return Facts(text)


def _takes(name: str, schema: Json, kind: Kind) -> bool:
    numeric = schema.get("type") in ("number", "integer")
    return numeric if kind == "number" else not numeric and kind in kinds_of(name, schema)


def _properties(properties: dict[str, Schema], root: Schema) -> list[tuple[str, Json]]:
    parts = [(name, flat(part, root)) for name, part in properties.items()]
    return [(name, part) for name, part in parts if not isinstance(part, bool)]
