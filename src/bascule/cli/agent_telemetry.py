"""An agent's telemetry, as `[telemetry]` says."""

from bascule.agent.telemetry import Telemetry
from bascule.config import Config
from bascule.telemetry.logger import configure_later
from bascule.telemetry.observe import Observer
from bascule.telemetry.redact import Redactor
from bascule.telemetry.tool_detail import ToolDetail


def telemetry(config: Config) -> Telemetry | None:
    """None where no collector is configured. Log lines go to stderr, and only of what went wrong."""
    configure_later(config.telemetry.log, "warning")
    section = config.telemetry
    if section.otlp_endpoint is None:
        return None
    from bascule import __version__
    from bascule.agent.meters import OtelMeters, metrics_url
    from bascule.telemetry.tracing import Tracing

    secrets = [] if config.agent.api_key is None else [config.agent.api_key.reveal()]
    detail = ToolDetail(names=True, content=section.tool_content, redactor=Redactor(secrets))
    observer = Observer(tracing=Tracing(section.otlp_endpoint, __version__), tool_detail=detail)
    meters = OtelMeters(metrics_url(section.otlp_endpoint), __version__)
    return Telemetry(observer, meters, detail)
