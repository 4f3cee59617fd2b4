"""The commands and their options."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import cyclopts
import uvloop
from cyclopts import Parameter

from bascule import __version__, config
from bascule.cli.record import run_record
from bascule.cli.serve import Overrides, check_config, list_models, run_serve
from bascule.config import ConfigError
from bascule.state.store import StoreError
from bascule.testing import ScriptError
from bascule.testing.mock import serve_mock

app = cyclopts.App(
    name="bascule",
    version=__version__,
    help="An agentic gateway: any agent client to any model server, every declared tool working.",
)

ConfigPath = Annotated[
    Path | None, Parameter(name="--config", help="default: ./bascule.toml, then the XDG folder")
]


@app.command
def serve(
    *,
    config_file: ConfigPath = None,
    host: str | None = None,
    port: int | None = None,
    upstream: str | None = None,
    profile: str | None = None,
    state: str | None = None,
    no_auth: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Serve the gateway. Without an upstream, one is looked for on this machine.

    Parameters
    ----------
    host
        Address to listen on; another than loopback needs API keys or --no-auth.
    port
        0 picks a free one.
    upstream
        A model server's base URL, in place of the configured ones.
    profile
        The kind of that server; found out by default.
    state
        The database of stored responses: sqlite:///PATH or postgresql://USER@HOST/NAME.
    no_auth
        Listen on another address than loopback although there are no API keys.
    """
    loaded = config.load(config_file or config.find_file())
    overrides = Overrides(host=host, port=port, upstream=upstream, profile=profile, state=state)
    uvloop.run(run_serve(loaded, overrides, no_auth=no_auth))


@app.command(name="check-config")
def check_config_command(*, config_file: ConfigPath = None) -> None:
    """Read the configuration and say what is wrong with it."""
    path = config_file or config.find_file()
    check_config(config.load(path))
    sys.stdout.write(f"{path or 'defaults'}: ok\n")


@app.command
def models(
    *,
    config_file: ConfigPath = None,
    upstream: str | None = None,
    profile: str | None = None,
) -> None:
    """List the models that a client can ask for.

    Parameters
    ----------
    upstream
        A model server's base URL, in place of the configured ones.
    profile
        The kind of that server; found out by default.
    """
    loaded = config.load(config_file or config.find_file())
    overrides = Overrides(upstream=upstream, profile=profile)
    for line in asyncio.run(list_models(loaded, overrides)):
        sys.stdout.write(line + "\n")


@app.command
def mock(*, script: Path | None = None, host: str = "127.0.0.1", port: int = 0) -> None:
    """Serve a scripted model server, or the demo model without a script.

    Parameters
    ----------
    script
        A JSON or Python file: see docs/testing.md.
    """
    uvloop.run(serve_mock(script, host, port))


@app.command
def record(*, upstream: str, out: Path, host: str = "127.0.0.1", port: int = 0) -> None:
    """Pass on what a client and a model server say to each other, and write it to a script file.

    Parameters
    ----------
    upstream
        The model server's base URL.
    out
        A file that is not there yet; `bascule mock --script` plays it. Keys are masked in it.
    port
        0 picks a free one.
    """
    uvloop.run(run_record(upstream, out, host, port))


def main() -> None:
    """Runs a command; faults of the configuration are one line on stderr and exit status 2."""
    try:
        app(sys.argv[1:])
    except (ConfigError, ScriptError) as e:
        sys.stderr.write(f"bascule: {e}\n")
        sys.exit(2)
    except (StoreError, OSError) as e:
        sys.stderr.write(f"bascule: {e}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
