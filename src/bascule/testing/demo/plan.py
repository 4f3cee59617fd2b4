"""Which tools to call for a request, and with what."""

import re
from typing import Any, cast

import msgspec

from bascule.testing.demo.conversation import Conversation
from bascule.testing.demo.facts import Facts
from bascule.testing.demo.offer import THRESHOLD, Offer
from bascule.testing.demo.schema.build import Builder, UnsatisfiableError
from bascule.testing.demo.schema.resolve import Schema
from bascule.testing.demo.suggest import RequestSuggestions
from bascule.testing.demo.talk import small_talk
from bascule.testing.demo.words import stems
from bascule.testing.steps import Json

MOST_TEXT = 4000
"""Characters of a request that are looked at, from its end."""

_MOST_CALLS = 8
_SEPARATORS = re.compile(
    r"\s*(?:[;\n]|(?<=\w)[.?!](?=\s|$)|,?\s+(?:and then|and also|and|then|as well as|plus)\s+)\s*"
)
_VERBATIM = re.compile(r"```.*?```|`[^`]*`|\"[^\"]*\"|“[^”]*”|https?://\S+", re.DOTALL)


class PlannedCall(msgspec.Struct, frozen=True):
    """A call to be made; the arguments are valid for the tool's schema where that can be met."""

    name: str
    arguments: Json


def plan(talk: Conversation) -> list[PlannedCall]:
    """The calls for the last user request that have not been made yet, in order."""
    offers = [Offer(tool) for tool in talk.usable()]
    if not offers:
        return []
    text = talk.request[-MOST_TEXT:]
    calls = _calls(text, offers) or _discovery(talk, text, offers)
    if not calls and talk.choice.mode == "required":
        calls = [_call(_best(text, offers)[0], text, text)]
    calls = _remaining(calls, talk)[:_MOST_CALLS]
    return calls if talk.parallel else calls[:1]


def _remaining(calls: list[PlannedCall], talk: Conversation) -> list[PlannedCall]:
    """Without those that have a result: the same call, else as many as the tool has results."""
    done = [(result.name, _decoded(result.arguments)) for result in talk.results]
    left: list[PlannedCall] = []
    for call in calls:
        key = (call.name, call.arguments)
        if key in done:
            done.remove(key)
        else:
            left.append(call)
    spent = [name for name, _ in done]
    for call in tuple(left):
        if call.name in spent:
            spent.remove(call.name)
            left.remove(call)
    return left


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _calls(text: str, offers: list[Offer]) -> list[PlannedCall]:
    calls: list[PlannedCall] = []
    current: Offer | None = None
    span = ""
    for clause in clauses(text):
        best, score = _best(clause, offers)
        if score >= THRESHOLD:
            current, span = best, clause
            _append(calls, _call(best, clause, text))
        elif current is not None:
            span = _continue(calls, current, span, clause)
    return calls


def _append(calls: list[PlannedCall], call: PlannedCall) -> None:
    if call not in calls:
        calls.append(call)


def _continue(calls: list[PlannedCall], offer: Offer, span: str, clause: str) -> str:
    """A part that names no tool: more for the last call, or the same again for something else."""
    joined = f"{span} and {clause}"
    if offer.wants_more(span, joined):
        calls[-1] = _call(offer, joined, joined)
        return joined
    facts = Facts(clause)
    found = [fact for kind in offer.main_kinds() for fact in facts.all(kind)]
    other = set(stems(clause)) - set(stems(" ".join(found)))
    if found and len(other) < 2:
        _append(calls, _call(offer, clause, clause))
    return span


def _discovery(talk: Conversation, text: str, offers: list[Offer]) -> list[PlannedCall]:
    """A search for tools, when none of those that are there suits."""
    finders = [offer for offer in offers if offer.finds_tools]
    if not finders or not stems(text) or small_talk(talk) is not None:
        return []
    return [_call(finders[0], text, text)]


def clauses(text: str) -> list[str]:
    """The parts of a request that may ask for different things; quoted text stays whole."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match.group())
        return f"\0{len(kept) - 1}\0"

    held = _VERBATIM.sub(keep, text.replace("\0", ""))
    parts = [piece for part in _SEPARATORS.split(held) for piece in _split_list(part, held)]
    restored = [re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], part) for part in parts]
    return [part.strip(" ,") for part in restored if part.strip(" ,")]


def _split_list(part: str, text: str) -> list[str]:
    """`Paris, Tokyo` of `Paris, Tokyo and Rome`; `Paris, France` alone is one place."""
    if re.search(re.escape(part) + r",? and [A-Z]", text):
        return re.split(r",\s+(?=[A-Z])", part)
    return [part]


def _best(text: str, offers: list[Offer]) -> tuple[Offer, float]:
    scored = [(offer, offer.score(text)) for offer in offers]
    return max(scored, key=lambda pair: pair[1])


def _call(offer: Offer, clause: str, text: str) -> PlannedCall:
    arguments = arguments_for(offer.tool.parameters, clause, text)
    return PlannedCall(offer.tool.name, arguments)


def arguments_for(parameters: Schema, clause: str, text: str) -> Json:
    """Arguments for a schema; `{}` when nothing valid was found."""
    schema: Schema = parameters or {"type": "object"}
    if isinstance(schema, dict) and "type" not in schema:
        schema = {"type": "object", **schema}
    try:
        built = Builder(parameters, RequestSuggestions(clause, text)).build(schema)
    except UnsatisfiableError:
        return {}
    return cast("Json", built) if isinstance(built, dict) else {}
