"""`[tools.web_search]`: who searches, and what may be opened."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bascule.config import Config, ConfigError, Secret
from bascule.services.egress import EgressPolicy, Guard
from bascule.services.search.engines import ENGINES, EngineName
from bascule.toolkit.options import ToolOptions

if TYPE_CHECKING:
    from bascule.tools.web_search_executor import WebSearchExecutor

Seconds = Annotated[float, Meta(gt=0)]


class WebSearchOptions(ToolOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without an engine nothing is searched, and the model is not told of the tool."""

    engine: EngineName | None = None
    base_url: str | None = None
    """Where the engine is, if it is not where it usually is."""
    api_key: Secret | None = None
    engine_timeout: Seconds = 15.0
    """Of one request to the engine."""
    page_timeout: Seconds = 20.0
    """Of one page, redirects included."""
    max_page_bytes: Annotated[int, Meta(gt=0)] = 10 * 1024 * 1024
    allow_hosts: tuple[str, ...] = ()
    """Hosts whose pages may be opened besides public ones."""
    allow_networks: tuple[str, ...] = ()


def executor_of(options: WebSearchOptions, config: Config) -> "WebSearchExecutor | None":
    """None without an engine. Raises ConfigError."""
    name = options.engine
    _check(options)
    security = config.security
    shared = EgressPolicy.of(security.allow_hosts, security.allow_networks, "security")
    own = EgressPolicy.of(options.allow_hosts, options.allow_networks, "tools.web_search")
    if name is None:
        return None
    # They load an HTTP client, which a gateway without an engine does not need.
    from bascule.services.fetch import Fetcher
    from bascule.services.pages.extractor import Extractor
    from bascule.services.pages.reader import PageReader
    from bascule.services.search.patience import Patient
    from bascule.tools.web_search_executor import WebSearchExecutor

    key = None if options.api_key is None else options.api_key.reveal()
    engine = ENGINES[name].make(options.base_url, key, options.engine_timeout)
    fetcher = Fetcher(
        Guard(shared.joined(own)),
        max_bytes=options.max_page_bytes,
        timeout=options.page_timeout,
        headers={
            "user-agent": "Mozilla/5.0 (compatible; bascule)",
            "accept": "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.1",
        },
    )
    return WebSearchExecutor(Patient(engine), PageReader(fetcher, Extractor()))


def _check(options: WebSearchOptions) -> None:
    place = "tools.web_search"
    if options.engine is None:
        for key in ("base_url", "api_key"):
            if getattr(options, key) is not None:
                raise ConfigError(f"{place}.{key}: there is no engine that it could belong to")
        return
    needed = ENGINES[options.engine].needs
    if needed is not None and getattr(options, needed) is None:
        raise ConfigError(f"{place}.{needed}: {options.engine} needs it")
    if options.base_url is not None and not options.base_url.startswith(("http://", "https://")):
        raise ConfigError(f"{place}.base_url: it must begin with http:// or https://")
