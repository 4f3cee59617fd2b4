"""Loggers that load the logging library when there is something to say.

It takes as long to load as all else that an agent needs for its first request.
"""

from typing import Any, Final

from bascule.telemetry.forms import Form, Level


class _Later:
    """How to log, said before anything is."""

    form: Form | None = None
    level: Level = "warning"


_later: Final = _Later()


def configure_later(form: Form, level: Level) -> None:
    """`configure_logging`, when something is logged for the first time. The first word counts, and none
    does where logging is configured already."""
    if _later.form is None:
        _later.form, _later.level = form, level


def settle() -> None:
    """Do what was put off."""
    if _later.form is None:
        return
    import structlog

    from bascule.telemetry.logs import configure_logging

    if not structlog.is_configured():
        configure_logging(_later.form, _later.level)
    _later.form = None


class Logger:
    """See structlog's loggers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **fields: Any) -> None:
        self._real().info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._real().warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        self._real().error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """With what is being raised."""
        self._real().exception(event, **fields)

    def _real(self) -> Any:
        settle()
        import structlog

        return structlog.stdlib.get_logger(self._name)
