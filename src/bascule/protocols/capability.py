"""One row of the capability matrix."""

from typing import Literal

import msgspec

Verdict = Literal["honoured", "translated", "tolerated", "refused"]
"""Honoured: it does what the Responses API says, passed on as it is or done by the gateway.
Translated: it reaches the server in another shape. Tolerated: it has no effect, and
`x-bascule-ignored` names it. Refused: a 400 that names it."""

Kind = Literal["field", "option", "include", "part", "item", "tool"]
Upstream = Literal["chat", "responses"]


class Support(msgspec.Struct, frozen=True):
    """A verdict. With `flag`, a profile flag (or `where`, in words), it holds where the flag is set
    (where it has one of `values`, if there are any), and `otherwise` elsewhere."""

    verdict: Verdict
    flag: str | None = None
    otherwise: Verdict | None = None
    values: tuple[str, ...] = ()
    where: str = ""

    def always(self, verdict: Verdict) -> bool:
        return self.verdict == verdict and self.otherwise in (None, verdict)


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """`note` says how, or why not. `neutral` are values that ask for what is done anyway: they are
    never refused, and never named as ignored."""

    kind: Kind
    name: str
    chat: Support
    responses: Support
    note: str = ""
    neutral: tuple[bytes, ...] = ()

    def on(self, upstream: Upstream) -> Support:
        return self.chat if upstream == "chat" else self.responses
