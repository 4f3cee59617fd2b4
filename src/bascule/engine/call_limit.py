"""`max_tool_calls`: how many calls the gateway runs for one response."""

from bascule.toolkit.outcome import Failed


class CallLimit:
    """Counts the calls that the gateway runs; without a maximum there is no limit."""

    def __init__(self, maximum: int | None) -> None:
        self._maximum = maximum
        self._run = 0

    def resumed(self) -> None:
        """A call that was admitted in an earlier response runs in this one: it counts, and runs."""
        self._run += 1

    def refusal(self) -> Failed | None:
        """None if one more call may run, which then counts; else what the model is told of it."""
        if self._maximum is None or self._run < self._maximum:
            self._run += 1
            return None
        calls = "one tool call" if self._maximum == 1 else f"{self._maximum} tool calls"
        return Failed(
            message=f"The call was not run: this response may make {calls}, and has made as many. "
            "Answer with what is known.",
            code="max_tool_calls",
        )
