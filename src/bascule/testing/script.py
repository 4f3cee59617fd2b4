"""What the server is to answer: replies in order, one for every request, or a rule."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from bascule.testing.answer import Answer, HttpAnswer, Reply, Verbatim, http_error
from bascule.testing.request import Request

Rule: TypeAlias = Callable[[Request], Answer | str]

Script: TypeAlias = Answer | str | Sequence[Answer | str] | Rule
"""One answer for every request, a sequence in order, or a function of the request."""


class Player:
    """Gives the answer to each chat request.

    A sequence that has been used up answers 500 with code `script_exhausted`, or goes on with its last
    reply when `then` is `repeat`.
    """

    def __init__(self, script: Script, then: Literal["fail", "repeat"] = "fail") -> None:
        self._script = script
        self._then = then
        self.played = 0

    def next(self, request: Request) -> Answer:
        """The answer to this request."""
        self.played += 1
        script = self._script
        if isinstance(script, Reply | HttpAnswer | Verbatim | str):
            return _answer(script)
        if callable(script):
            return _ruled(script, request)
        if self.played <= len(script):
            return _answer(script[self.played - 1])
        if script and self._then == "repeat":
            return _answer(script[-1])
        return http_error(
            500,
            f"the script is exhausted: it has {len(script)} replies, this is request {self.played}",
            code="script_exhausted",
        )


def _ruled(rule: Rule, request: Request) -> Answer:
    try:
        return _answer(rule(request))
    except Exception as error:  # noqa: BLE001 -- whatever a test's own function raises
        return http_error(500, f"the script's rule has failed: {error!r}", code="script_failed")


def _answer(answer: Answer | str) -> Answer:
    return Reply(answer) if isinstance(answer, str) else answer
