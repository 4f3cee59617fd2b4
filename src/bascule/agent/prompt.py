"""What a session tells the model before the first prompt."""

import os
import time
from typing import Final

from bascule.agent.approvals.policy import Approval
from bascule.agent.history import message
from bascule.services.sandbox import Boundary

INSTRUCTIONS: Final = """\
You are a coding agent that works in a terminal, in the user's own project. Do what is asked, all of it, \
and nothing else.

- Look before you change: search and read what is there, and follow its style.
- Change files with apply_patch, in small patches. Read a file again if a patch does not fit.
- Run what proves that a change works (tests, a build, the program itself) and read what it prints. \
Repair what you broke.
- For work of several steps keep a plan with update_plan, and bring it up to date as you go.
- Never undo work that is not yours, and do not commit or push unless you are asked to.
- Commands have no user at their side: do not start an editor or a pager, and give the options that \
keep programs from asking.
- When you are done, say briefly what you changed, how you checked it, and what is left.
"""

_SANDBOX: Final = {
    "read-only": "Commands run in a sandbox in which all files can be read and none can be changed.",
    "workspace-write": (
        "Commands run in a sandbox in which all files can be read, and those of the working folder"
        "{roots} and of /tmp can be changed. The folder .git stays as it is."
    ),
    "danger-full-access": "Commands run without a sandbox.",
}
_NETWORK: Final = {True: "They can use the network.", False: "They have no network."}
_APPROVAL: Final[dict[Approval, str]] = {
    "untrusted": "The user is asked about every command that is not known to only read, and about "
    "every patch.",
    "on-request": "To run a command outside of the sandbox, set `sandbox_permissions` to "
    "`require_escalated` and say in `justification` why: the user is asked.",
    "on-failure": "When a command fails because of the sandbox, the user is asked whether it may run "
    "without it.",
    "never": "Nobody can be asked for more: do what can be done within these bounds.",
}


def permissions(boundary: Boundary, approval: Approval) -> bytes:
    """A developer message: what may be done."""
    roots = "".join(f", of {root}" for root in boundary.roots)
    lines = [_SANDBOX[boundary.mode].format(roots=roots)]
    if boundary.mode != "danger-full-access":
        lines.append(_NETWORK[boundary.network])
    if boundary.mode != "danger-full-access" or approval in ("untrusted", "never"):
        lines.append(_APPROVAL[approval])
    return message("developer", "\n".join(lines))


def surroundings(boundary: Boundary) -> bytes:
    """A user message: where this is."""
    shell = os.environ.get("SHELL", "/bin/sh").rsplit("/", 1)[-1]
    text = (
        "<environment>\n"
        f"  <cwd>{boundary.workspace}</cwd>\n"
        f"  <shell>{shell}</shell>\n"
        f"  <date>{time.strftime('%Y-%m-%d')}</date>\n"
        f"  <timezone>{time.strftime('%Z')}</timezone>\n"
        f"  <sandbox>{boundary.mode}</sandbox>\n"
        "</environment>"
    )
    return message("user", text)
