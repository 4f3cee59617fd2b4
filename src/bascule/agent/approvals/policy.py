"""The user's policy: what each kind of action needs, under each sandbox."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from bascule.agent.actions import Action, CallServer, ChangeFiles, RunCommand
from bascule.agent.approvals.rules import Rules
from bascule.agent.approvals.safe import is_safe_script
from bascule.agent.approvals.script import read_all
from bascule.services.sandbox import Boundary
from bascule.toolkit.approval import ALLOW, Ask, Forbid, Verdict

Approval = Literal["untrusted", "on-request", "on-failure", "never"]
"""Ask about all that is not known to be harmless; when the model asks for more; when the sandbox was
in the way; or never."""

NEVER: Final = (
    "approval policy is never: nobody can be asked to run this outside of the sandbox. "
    "Do without, or tell the user what you would need."
)
_READ_ONLY: Final = (
    "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
)
_OUTSIDE: Final = (
    "patch rejected: writing outside of the project; rejected by user approval settings"
)


class ApprovalPolicy(msgspec.Struct, kw_only=True):
    """`boundary` is what runs without a question; `sandboxed` says whether anything keeps it."""

    approval: Approval
    boundary: Boundary
    rules: Rules = msgspec.field(default_factory=Rules)
    sandboxed: bool = True

    def verdict(self, action: Action) -> Verdict:
        """Of one action, before it was asked about."""
        if isinstance(action, RunCommand):
            return self._command(action)
        if isinstance(action, ChangeFiles):
            return self._files(action)
        return self._server(action)

    def granted(self, action: Action) -> Boundary:
        """What an action may do that was let through."""
        if isinstance(action, RunCommand) and (action.escalated or not self.sandboxed):
            return self.open_boundary
        return self.boundary

    @property
    def named(self) -> str:
        """What keeps commands in, in a word."""
        unconfined = self.boundary.mode != "danger-full-access" and not self.sandboxed
        return "none" if unconfined else self.boundary.mode

    @property
    def open_boundary(self) -> Boundary:
        return msgspec.structs.replace(self.boundary, mode="danger-full-access")

    @property
    def asks_after_failure(self) -> bool:
        """Whether a command that the sandbox stopped may be tried again without it."""
        return self.approval == "on-failure" and self._confined

    @property
    def _confined(self) -> bool:
        return self.boundary.mode != "danger-full-access" and self.sandboxed

    def _command(self, action: RunCommand) -> Verdict:
        script = read_all(action.judged)
        rule = self.rules.rule_of(script)
        if rule is not None and rule.decision == "forbid":
            return Forbid(rule.reason or "This command is forbidden by the user's rules.")
        if rule is not None and rule.decision == "prompt":
            return self._ask(rule.reason or "The user's rules ask about this command.")
        if rule is not None:
            return ALLOW
        if self.boundary.mode == "danger-full-access":
            untrusted = self.approval == "untrusted" and not is_safe_script(script)
            return Ask("It may change something.") if untrusted else ALLOW
        if not self.sandboxed:
            return (
                ALLOW if is_safe_script(script) else self._ask("There is no sandbox to run it in.")
            )
        if action.escalated:
            return self._ask(action.justification or "It is to run outside of the sandbox.", NEVER)
        if self.approval == "untrusted" and not is_safe_script(script):
            return Ask("It may change something.")
        return ALLOW

    def _files(self, action: ChangeFiles) -> Verdict:
        mode = self.boundary.mode
        if not action.paths:
            return ALLOW
        if mode == "read-only":
            return self._ask("The sandbox is read-only.", _READ_ONLY)
        if mode == "workspace-write":
            outside = [path for path in action.paths if not self._may_write(path)]
            if outside:
                return self._ask(f"It is outside of the project: {_listed(outside)}.", _OUTSIDE)
        return Ask("It changes files.") if self.approval == "untrusted" else ALLOW

    def _may_write(self, path: Path) -> bool:
        if any(path.is_relative_to(kept) for kept in self.boundary.kept):
            return False
        return any(path.is_relative_to(folder) for folder in self.boundary.writable)

    def _server(self, action: CallServer) -> Verdict:
        if action.asks:
            told = "This tool needs an approval, and nobody can be asked."
            return self._ask("The server's tool needs an approval.", told)
        if action.asks is False or action.read_only:
            return ALLOW
        return (
            Ask("The server's tool may change something.")
            if self.approval == "untrusted"
            else ALLOW
        )

    def _ask(self, why: str, told: str = NEVER) -> Verdict:
        return Forbid(told) if self.approval == "never" else Ask(why)


def _listed(paths: Sequence[Path]) -> str:
    shown = ", ".join(str(path) for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
