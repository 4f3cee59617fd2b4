"""Who owns which call: data, never guessed from a name."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from bascule.toolkit.approval import Rule
from bascule.toolkit.executor import Policy, ToolExecutor
from bascule.toolkit.options import NO_OPTIONS, ToolOptions

P = TypeVar("P")


class Owner(Enum):
    """Who executes a call. UPSTREAM types run in the model server and never come back as calls;
    LOCAL is the client's own runtime."""

    CLIENT = "client"
    GATEWAY = "gateway"
    UPSTREAM = "upstream"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Binding:
    """An executor with the parameters of one declaration, and how its calls may run. Made by `bind`,
    which pairs the types before they are erased here."""

    executor: ToolExecutor[Any]
    params: Any
    policy: Policy
    timeout: float
    """Seconds, from when a call runs."""
    rule: Rule | None = None
    """Whether calls need an approval; without one all may run."""


def bind(
    executor: ToolExecutor[P],
    params: P,
    options: ToolOptions = NO_OPTIONS,
    rule: Rule | None = None,
) -> Binding:
    """Pair an executor with parameters of its type, under the operator's options, else the executor's
    own policy and timeout."""
    timeout = executor.timeout if options.timeout is None else options.timeout
    return Binding(executor, params, _policy(executor.policy, options.parallel), timeout, rule)


def _policy(own: Policy, parallel: bool | None) -> Policy:
    if parallel is None or parallel == (own == "parallel"):
        return own
    return "parallel" if parallel else "per_name"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner, and who runs the call there. A gateway-owned tool without a binding is not offered to
    the model and answers every call with an error."""

    owner: Owner
    binding: Binding | None = None


CLIENT = Ownership(Owner.CLIENT)
"""The calls go back to the client."""
UPSTREAM = Ownership(Owner.UPSTREAM)
"""The model's server runs the calls itself."""
UNAVAILABLE = Ownership(Owner.GATEWAY)
"""The gateway would have to run the calls, and nothing here can."""


def gateway(
    executor: ToolExecutor[P],
    params: P,
    options: ToolOptions = NO_OPTIONS,
    rule: Rule | None = None,
) -> Ownership:
    """The gateway runs the calls, as the operator's options of their type say, and the rule permits."""
    return Ownership(Owner.GATEWAY, bind(executor, params, options, rule))
