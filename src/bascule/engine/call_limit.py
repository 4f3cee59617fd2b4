"""`max_tool_calls`: how many calls the gateway runs for one response."""

from bascule.engine.accumulator import RoundCall
from bascule.toolkit.outcome import Failed


class CallLimit:
    """Counts the calls that the gateway runs; without a maximum there is no limit."""

    def __init__(self, maximum: int | None) -> None:
        self._maximum = maximum
        self._run = 0
        self._beyond: set[RoundCall] = set()

    def admits(self, call: RoundCall) -> bool:
        """Whether this call may run; asked once for each call."""
        if self._maximum is not None and self._run >= self._maximum:
            self._beyond.add(call)
            return False
        self._run += 1
        return True

    def resumed(self) -> None:
        """A call that was admitted in an earlier response runs in this one: it counts, and runs."""
        self._run += 1

    def is_beyond(self, call: RoundCall) -> bool:
        return call in self._beyond

    def refusal(self, call: RoundCall) -> Failed:
        """What the model is told of a call that was not run."""
        if call not in self._beyond:
            return Failed(message="This server has no executor for the tool.")
        calls = "one tool call" if self._maximum == 1 else f"{self._maximum} tool calls"
        return Failed(
            message=f"The call was not run: this response may make {calls}, and has made as many. "
            "Answer with what is known.",
            code="max_tool_calls",
        )
