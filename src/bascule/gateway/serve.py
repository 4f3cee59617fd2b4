"""Builds a gateway from its configuration and serves it with uvicorn."""

import asyncio
import base64
import binascii
import functools
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import structlog
import uvicorn

from bascule import __version__
from bascule.config import Config, ConfigError, Secret, data_folder
from bascule.engine.engine import Engine, EngineSettings
from bascule.engine.seal import Sealer
from bascule.gateway.app import Gateway
from bascule.gateway.push import PushProtocol
from bascule.gateway.tool_health import ToolHealth
from bascule.plugin.loading import Plugin, load_plugins
from bascule.state.retention import Retention
from bascule.state.sql import check_url, open_store
from bascule.state.url import is_postgres
from bascule.telemetry.metrics import Metrics
from bascule.telemetry.observe import Observer
from bascule.telemetry.redact import Redactor
from bascule.telemetry.tool_detail import ToolDetail
from bascule.telemetry.trace_files import TraceFiles
from bascule.toolkit.handler import Handlers
from bascule.toolkit.prepare import ToolLimits
from bascule.tools.all import all_handlers
from bascule.upstreams.client import UpstreamClient
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.proxied import ProxiedClient
from bascule.upstreams.retry import RetryingClient
from bascule.upstreams.routing import Router

_log = structlog.stdlib.get_logger("bascule.gateway")

_KEY_BYTES = 32
_LAST_WORDS = 5
"""Seconds for requests that are still open when nobody is listened to any more."""


def state_url(config: Config) -> str:
    """The configured database, else a file in the data folder."""
    url = config.state.url
    return f"sqlite:///{data_folder() / 'state.db'}" if url is None else url.reveal()


def make_client() -> UpstreamClient:
    """The small client, or aiohttp where the environment names a proxy; both with retries."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in names):
        return RetryingClient(ProxiedClient(trust_env=True))
    return RetryingClient(Http1Client(ssl_context=_trusted()))


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The system's certificates, read once: that takes a tenth of a second."""
    return ssl.create_default_context()


def check(config: Config, client: UpstreamClient) -> Router:
    """All that can be known to be wrong before anything is served. Raises ConfigError."""
    return _checked(config, client)[0]


def _checked(config: Config, client: UpstreamClient) -> tuple[Router, Handlers, list[Plugin]]:
    plugins = load_plugins(config.tools.modules)
    handlers = all_handlers(config, [plugin.tool for plugin in plugins])
    try:
        check_url(state_url(config))
    except ValueError as e:
        raise ConfigError(f"state.url: {e}") from None
    for i, key in enumerate(config.security.keys):
        _key(key, f"security.keys[{i}]")
    return Router(config, client), handlers, plugins


async def build(config: Config, client: UpstreamClient) -> Gateway:
    """Opens the store and puts the parts together. Raises ConfigError, StoreError."""
    router, handlers, plugins = _checked(config, client)
    for plugin in plugins:
        _log.info("tool type", type=plugin.tool.type, origin=plugin.origin)
    url = state_url(config)
    store = await open_store(url)
    tools = config.tools
    engine = Engine(
        handlers=handlers,
        store=store,
        sealer=Sealer(_sealing_keys(config, url)),
        settings=EngineSettings(
            max_rounds=tools.max_rounds,
            max_concurrent_calls=tools.max_concurrent_calls,
            max_reasks=tools.max_reasks,
            max_result_bytes=tools.max_result_bytes,
            tool_limits=ToolLimits(config.limits.max_tools, config.limits.max_deferred_tools),
        ),
        observer=make_observer(config),
    )

    if engine.observer.metrics is not None:
        engine.observer.metrics.registry.register(ToolHealth(handlers))
    retention = Retention(store, config.state.retention_days)

    async def close() -> None:
        await handlers.aclose()
        await client.aclose()
        await retention.aclose()
        await store.aclose()
        await asyncio.to_thread(engine.observer.close)

    gateway = Gateway(config, engine=engine, router=router, close=close)
    retention.start()
    return gateway


def make_observer(config: Config) -> Observer:
    """Metrics always; traces and files where they are configured, their libraries loaded then only."""
    section = config.telemetry
    tracing = files = None
    if section.otlp_endpoint is not None:
        from bascule.telemetry.tracing import Tracing

        tracing = Tracing(section.otlp_endpoint, __version__)
    if section.trace_dir is not None:
        files = TraceFiles(Path(section.trace_dir), _secrets(config))
    detail = None
    if section.tool_names or section.tool_content:
        redactor = Redactor(_secrets(config))
        detail = ToolDetail(section.tool_names, section.tool_content, redactor)
    metrics = Metrics(__version__)
    return Observer(metrics=metrics, tracing=tracing, files=files, tool_detail=detail)


def _secrets(config: Config) -> list[str]:
    keys = [upstream.api_key for upstream in config.upstreams]
    for server in config.mcp_servers:
        keys += [*server.env.values(), *server.headers.values()]
        keys += [server.oauth.client_secret] if server.oauth is not None else []
    known = [*config.server.api_keys, *config.security.keys, *keys, config.telemetry.metrics_key]
    return [key.reveal() for key in known if key is not None and key.reveal() != "client"]


def _sealing_keys(config: Config, url: str) -> list[bytes]:
    keys = [_key(key, f"security.keys[{i}]") for i, key in enumerate(config.security.keys)]
    if keys:
        return keys
    if is_postgres(url):
        folder = data_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [_kept_key(folder / "sealing.key")]
    _, found, path = url.partition("sqlite:///")
    if not found or not path.partition("?")[0]:
        return [os.urandom(_KEY_BYTES)]
    return [_kept_key(Path(path.partition("?")[0]).absolute().parent / "sealing.key")]


def _kept_key(path: Path) -> bytes:
    """Made once, beside the state, readable by its owner only."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _key(Secret(path.read_text().strip() or "-"), str(path))
    key = os.urandom(_KEY_BYTES)
    with os.fdopen(file, "w") as out:
        out.write(base64.b64encode(key).decode() + "\n")
    return key


def _key(secret: Secret, place: str) -> bytes:
    text = secret.reveal()
    for read in (bytes.fromhex, _base64):
        try:
            key = read(text)
        except ValueError:
            continue
        if len(key) == _KEY_BYTES:
            return key
    raise ConfigError(f"{place}: expected 32 bytes in base64 or hexadecimal")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError(str(e)) from None


class _Server(uvicorn.Server):
    """Says where it listens, on the first line of stdout, and drains before it stops listening."""

    def __init__(
        self, config: uvicorn.Config, gateway: Gateway, listening: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._listening = listening
        self._patience_ends: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._listening(f"http://{shown}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal begins the draining, a second one ends it."""
        if self._patience_ends is None:
            self._patience_ends = time.monotonic() + self._gateway.config.server.drain_seconds
            self._captured_signals.append(sig)
            self._gateway.drain()
        else:
            self._patience_ends = 0

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        if self._patience_ends is not None and not self.should_exit:
            late = time.monotonic() >= self._patience_ends
            if late:
                self._gateway.cut()
            self.should_exit = late or not self._gateway.running_turns
        return await super().on_tick(counter)


def say_listening(url: str) -> None:
    sys.stdout.write(f"listening on {url}\n")
    sys.stdout.flush()


def make_server(
    gateway: Gateway, listening: Callable[[str], None] = say_listening
) -> uvicorn.Server:
    """A server for the gateway; `serve` runs it until SIGINT or SIGTERM (or `should_exit`). Then it
    listens on for as long as turns are under way, at most `drain_seconds`, and refuses new ones."""
    section = gateway.config.server
    config = uvicorn.Config(
        gateway,  # type: ignore[arg-type]
        host=section.host,
        port=section.port,
        http=PushProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        backlog=4096,
        timeout_graceful_shutdown=_LAST_WORDS,
    )
    return _Server(config, gateway, listening)
