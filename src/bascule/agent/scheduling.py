"""The toolkit's scheduler, as a turn uses it."""

from typing import Final

from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.scheduler import Scheduler

_AT_ONCE: Final = 16
_MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
"""Images are among the results."""


def make_scheduler(observed: TurnObserver | None) -> Scheduler:
    """For one turn."""
    return Scheduler(_AT_ONCE, _MAX_RESULT_BYTES, observed)
