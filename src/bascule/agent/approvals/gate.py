"""Every action passes here: by the policy, by what was said before, or by asking."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bascule.agent.actions import Action, ChangeFiles, RunCommand
from bascule.agent.approvals.ask import Approver, Choice, Question, Reply
from bascule.agent.approvals.policy import ApprovalPolicy
from bascule.agent.approvals.rules import Rule, Rules
from bascule.agent.approvals.script import read_all
from bascule.agent.calls import ToolCall
from bascule.agent.events import Decided
from bascule.agent.handler import ToolFault
from bascule.services.sandbox import Boundary
from bascule.telemetry.logger import Logger
from bascule.toolkit.approval import Answer, Ask, Forbid

if TYPE_CHECKING:
    from bascule.agent.turn import TurnContext

_log = Logger("bascule.agent")

Remember = Callable[[tuple[str, ...]], Rule]


class Gate:
    """One for each session. `approver` is None where nobody can be asked; `remember` writes down what
    is allowed for good."""

    def __init__(
        self,
        policy: ApprovalPolicy,
        approver: Approver | None = None,
        remember: Remember | None = None,
    ) -> None:
        self.policy = policy
        self._approver = approver
        self._remember = remember
        self._approved: set[object] = set()
        self._one_at_a_time = asyncio.Lock()

    async def admit(self, action: Action, call: ToolCall, turn: "TurnContext") -> Boundary:
        """What the action may do. Raises ToolFault for one that may not run."""
        verdict = self.policy.verdict(action)
        if isinstance(verdict, Forbid):
            self._decided(turn, call, "denied", "config")
            raise ToolFault(verdict.reason)
        if isinstance(verdict, Ask) and not self._was_approved(action, retry=False):
            await self._ask(action, call, turn, verdict.why or "", retry=False)
        else:
            self._decided(turn, call, "approved", "config")
        return self.policy.granted(action)

    async def wider(self, action: Action, call: ToolCall, turn: "TurnContext") -> Boundary | None:
        """What it may do when it is tried again; None if it is not."""
        if not self.policy.asks_after_failure or self._approver is None:
            return None
        try:
            why = "The sandbox stopped it."
            await self._ask(action, call, turn, why, retry=True)
        except ToolFault:
            return None
        return self.policy.open_boundary

    async def _ask(
        self, action: Action, call: ToolCall, turn: "TurnContext", why: str, *, retry: bool
    ) -> None:
        if self._approver is None:
            self._decided(turn, call, "denied", "config")
            raise ToolFault("This needs the user's approval, and nobody is there to be asked.")
        question = Question(
            call_id=call.call_id,
            tool=str(call.name),
            action=action,
            why=why,
            choices=_choices(action, can_remember=self._remember is not None),
            retry=retry,
        )
        async with self._one_at_a_time:
            if self._was_approved(action, retry=retry):
                return  # said while this one waited
            reply = await self._approver(question)
        self._decided(turn, call, reply.choice, "user")
        self._take(action, reply, turn, retry=retry)

    def _take(self, action: Action, reply: Reply, turn: "TurnContext", *, retry: bool) -> None:
        """Raises ToolFault for a no."""
        if reply.choice in ("no", "abort"):
            if reply.choice == "abort":
                turn.end("interrupted", "stopped by the user")
                turn.session.interrupt()
            raise ToolFault(Answer(approved=False, reason=reply.reason).refusal())
        if reply.choice == "session":
            self._approved |= _keys(action, retry=retry)
        elif reply.choice == "always" and isinstance(action, RunCommand) and action.prefix:
            self._approved |= _keys(action, retry=retry)
            if self._remember is not None:
                try:
                    self.policy.rules.add(self._remember(action.prefix))
                except OSError as e:
                    _log.warning("a rule could not be written down", error=e.strerror)

    def _was_approved(self, action: Action, *, retry: bool) -> bool:
        keys = _keys(action, retry=retry)
        return bool(keys) and keys <= self._approved

    def _decided(self, turn: "TurnContext", call: ToolCall, decision: str, source: str) -> None:
        said = "user" if source == "user" else "config"
        turn.session.telemetry.tool_decision(turn, call, decision, said)
        if decision != "approved":
            turn.emit(Decided(call.call_id, str(call.name), decision, said))


def _keys(action: Action, *, retry: bool) -> set[object]:
    """What an approval for the session covers: a command in its sandbox, or tried again without it."""
    if isinstance(action, RunCommand):
        return {("command", action.judged, action.cwd, action.escalated, retry)}
    if isinstance(action, ChangeFiles):
        return {("file", path) for path in action.paths}
    return {("server", action.server, action.tool)}


def _fits(action: RunCommand) -> bool:
    """Whether the beginning that the model would like to be allowed is that of its command."""
    rule = Rule(prefix=action.prefix or (), decision="allow")
    return Rules([rule]).rule_of(read_all(action.judged)) is not None


def _choices(action: Action, *, can_remember: bool) -> tuple[Choice, ...]:
    if isinstance(action, RunCommand) and action.prefix and can_remember and _fits(action):
        return ("yes", "session", "always", "no", "abort")
    return ("yes", "session", "no", "abort")
