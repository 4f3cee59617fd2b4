"""What `serve`, `check-config` and `models` do."""

import gc
import ipaddress
import os
import signal
import sys
from contextlib import AsyncExitStack
from types import FrameType
from typing import Any

import msgspec
import uvicorn

from bascule.config import Config, ConfigError, Secret, UpstreamSection
from bascule.gateway.serve import build, check, make_client, make_server
from bascule.telemetry.logs import configure_logging
from bascule.testing.demo import demo_server
from bascule.upstreams.catalog import Catalog
from bascule.upstreams.client import UpstreamClient
from bascule.upstreams.discovery import discover, identify
from bascule.upstreams.routing import Router, base_url
from bascule.upstreams.wire import parse_target


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says in place of the configuration."""

    host: str | None = None
    port: int | None = None
    upstream: str | None = None
    profile: str | None = None
    state: str | None = None


def say(line: str) -> None:
    """A word to the person at the terminal; stdout is for what programs read."""
    sys.stderr.write(line + "\n")


async def run_serve(config: Config, overrides: Overrides, *, no_auth: bool) -> None:
    """Serve until a signal comes. Raises ConfigError, StoreError, OSError."""
    configure_logging(config.telemetry.log, config.telemetry.level)
    config = _apply(config, overrides)
    refuse_open_door(config, no_auth=no_auth)
    async with AsyncExitStack() as stack:
        client = local_client()
        stack.push_async_callback(client.aclose)
        config = await with_upstreams(config, overrides, client, stack)
        gateway = await build(config, client)
        _settle_memory()
        await _until_signal(make_server(gateway))


def _settle_memory() -> None:
    """What is loaded so far stays: a full collection need not walk it. A turn makes some hundred
    objects that go by reference counting, so cycles are looked for less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def _until_signal(server: uvicorn.Server) -> None:
    """Serve; a signal that ended it is no failure. Raises OSError."""

    # uvicorn raises the signal again when it has drained, for whoever handled it before.
    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        await server.serve()
    except SystemExit:
        where = f"{server.config.host}:{server.config.port}"
        raise OSError(f"cannot listen on {where}") from None


def check_config(config: Config) -> None:
    """Raises ConfigError."""
    check(config, make_client())


async def list_models(config: Config, overrides: Overrides) -> list[str]:
    """A line for each model: its name and who has it. Raises OSError when no upstream answers."""
    configure_logging(config.telemetry.log, config.telemetry.level)
    async with AsyncExitStack() as stack:
        client = local_client()
        stack.push_async_callback(client.aclose)
        config = await with_upstreams(config, overrides, client, stack)
        catalog = Catalog(Router(config, client), patience=15)
        stack.push_async_callback(catalog.aclose)
        models = await catalog.models(None)
        if not await catalog.reachable():
            asked = ", ".join(upstream.base_url for upstream in config.upstreams)
            raise OSError(f"no model server answers at {asked}")
    return [f"{model.id}\t{model.owned_by}" for model in models]


def _apply(config: Config, overrides: Overrides) -> Config:
    server: dict[str, Any] = {}
    if overrides.host is not None:
        server["host"] = overrides.host
    if overrides.port is not None:
        if not 0 <= overrides.port <= 65535:
            raise ConfigError(f"--port: {overrides.port} is not between 0 and 65535")
        server["port"] = overrides.port
    changes: dict[str, Any] = {"server": msgspec.structs.replace(config.server, **server)}
    if overrides.state is not None:
        changes["state"] = msgspec.structs.replace(config.state, url=Secret(overrides.state))
    return msgspec.structs.replace(config, **changes)


def refuse_open_door(config: Config, *, no_auth: bool) -> None:
    """Raises ConfigError for an address that others reach, without keys."""
    server = config.server
    if server.api_keys or no_auth or _is_loopback(server.host):
        return
    raise ConfigError(
        f"server.host: {server.host} can be reached from outside and there are no "
        "server.api_keys; set some, or say --no-auth"
    )


def local_client() -> UpstreamClient:
    """The client for model servers; those on this machine are not asked through a proxy."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    os.environ["no_proxy"] = ",".join(filter(None, [given, "localhost", "127.0.0.1", "::1"]))
    return make_client()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def with_upstreams(
    config: Config, overrides: Overrides, client: UpstreamClient, stack: AsyncExitStack
) -> Config:
    """The configuration with at least one upstream: given, configured, found, or the demo model."""
    if overrides.upstream is not None:
        url = base_url(overrides.upstream)
        try:
            parse_target(url)
        except ValueError as e:
            raise ConfigError(f"--upstream: {e}") from None
        profile = overrides.profile or await identify(client, url)
        section = UpstreamSection(name="upstream", base_url=url, profile=profile)
        say(f"upstream: {url} ({profile})")
        return _with(config, [section])
    if config.upstreams:
        return config
    found = await discover(client)
    for server in found:
        names = ", ".join(server.models[:5]) or "no models"
        say(f"found {server.section.profile} at {server.section.base_url}: {names}")
    if found:
        return _with(config, [server.section for server in found])
    demo = await stack.enter_async_context(demo_server())
    say("no model server found on this machine: serving the demo model, bascule-demo")
    return _with(config, [UpstreamSection(name="demo", base_url=demo.url, profile="custom")])


def _with(config: Config, sections: list[UpstreamSection]) -> Config:
    return msgspec.structs.replace(config, upstreams=tuple(sections), models=())
