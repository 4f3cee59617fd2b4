"""What a tool choice demands of an answer where the server does not see to it itself."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from bascule.protocols.errors import ApiError
from bascule.protocols.flags import Flags
from bascule.protocols.function import WireChoice
from bascule.protocols.ids import mint
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Message,
)
from bascule.protocols.responses.response import Usage

Fault = Literal["text", "limit", "other_tool", "called", "empty", "error"]
"""Why an answer was discarded: text instead of a call, cut by the token limit before one, calls of
other tools, calls although there was to be none, nothing at all, an HTTP error."""

_MAX_RETOLD: Final = 2000
"""Characters of a discarded answer that the model gets to see again."""


class ChoiceRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway enforces in one round, in wire names."""

    must: tuple[str, ...] = ()
    """One of these has to be called; none of them need be when it is empty."""
    only: bool = False
    """Calls of others are dropped."""
    never: bool = False
    """All calls are dropped, and text has to come."""
    single: bool = False
    """The first call stays, further ones are dropped."""
    allowed: tuple[str, ...] | None = None
    """The limit of `allowed_tools`, which calls outside it do not use up `single`."""

    def counts(self, name: str) -> bool:
        """Whether a call of this name is one that the choice means."""
        if self.must:
            return name in self.must
        return self.allowed is None or name in self.allowed


def rule_for(
    choice: WireChoice, flags: Flags, names: Sequence[str], *, parallel: bool | None
) -> ChoiceRule | None:
    """None where the server sees to all of it, or there is nothing to enforce.

    `names` are those of the declared functions, `parallel` is the request's `parallel_tool_calls`.
    """
    if not names:
        return None
    rule = ChoiceRule(
        must=_must(choice, flags, names),
        only=choice.name is not None,
        never=choice.mode == "none" and not flags.enforces_none,
        single=parallel is False and not (flags.parallel_tool_calls and flags.enforces_parallel),
        allowed=choice.allowed,
    )
    return rule if rule.must or rule.never or rule.single else None


def _must(choice: WireChoice, flags: Flags, names: Sequence[str]) -> tuple[str, ...]:
    if choice.mode != "required":
        return ()
    if choice.name is not None:
        return () if flags.enforces_named else (choice.name,)
    if choice.allowed is not None:
        told = flags.allowed_tools and flags.enforces_required
        return () if told else choice.allowed
    return () if flags.enforces_required else tuple(names)


def relaxed(choice: WireChoice) -> WireChoice:
    """The choice of the rounds that follow: one that is fulfilled must not force the next round too,
    or the loop never ends."""
    native = () if choice.allowed is None else choice.native
    return WireChoice("none" if choice.mode == "none" else "auto", None, choice.allowed, native)


class Violation(msgspec.Struct):
    """An answer that was discarded, and what the model is told of it."""

    fault: Fault
    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    """Names and arguments."""
    usage: Usage | None = None

    def retold(self, rule: ChoiceRule) -> list[Flat]:
        """Items to be put behind the history when the model is asked again.

        The model sees the answer that was not accepted: a wrong call with an error as its result,
        a text with a word from the user. Servers want both forms, and small models learn from them.
        """
        items: list[Flat] = []
        if self.text:
            items.append(Message("assistant", self.text[:_MAX_RETOLD]))
        if self.fault == "other_tool":
            told = f"Not run: {_demand(rule)}"
            pairs = [(FunctionCall(mint("call"), *call), told) for call in self.calls]
            items += [call for call, _ in pairs]
            items += [FunctionCallOutput(call.call_id, output) for call, output in pairs]
        else:
            items.append(Message("user", f"{_said(self.fault)} {_demand(rule)}".strip()))
        return items


def _said(fault: Fault) -> str:
    match fault:
        case "text":
            return "You wrote text where a tool had to be called."
        case "limit":
            return "Your answer ran into its length limit before it called a tool: write no text."
        case "empty" | "error":
            return "Your answer called no tool."
        case "called":
            return "You called a tool, which was not run."
        case "other_tool":
            return ""


def _demand(rule: ChoiceRule) -> str:
    if rule.never:
        return "No tool may be called now: answer in text."
    if len(rule.must) == 1:
        return f"Call the tool `{rule.must[0]}` now, and nothing else."
    names = ", ".join(f"`{name}`" for name in rule.must)
    return f"Call one of these tools now: {names}."


def not_followed(rule: ChoiceRule, why: str) -> ApiError:
    """What the response fails with when nothing has helped."""
    wanted = (
        "'none', which allows no call"
        if rule.never
        else f"a call of {' or '.join(repr(name) for name in rule.must)}"
    )
    return ApiError(
        502,
        f"The model did not follow the tool choice ({wanted}): {why}.",
        code="tool_choice_not_followed",
        param="tool_choice",
    )
