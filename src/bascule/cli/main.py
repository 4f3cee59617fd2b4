"""The commands and their options."""

import asyncio
import gc
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import cyclopts
from cyclopts import Parameter

from bascule import config
from bascule.cli.agent_options import NOTHING_SAID, Options
from bascule.config import ConfigError

# What a command needs is loaded when it is called: an agent is there in a fraction of the time that a
# gateway takes.


def _version() -> str:
    from bascule import __version__

    return __version__


app = cyclopts.App(
    name="bascule",
    version=_version,
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
    import uvloop

    from bascule.cli.serve import Overrides, run_serve

    loaded = config.load(config_file or config.find_file())
    overrides = Overrides(host=host, port=port, upstream=upstream, profile=profile, state=state)
    uvloop.run(run_serve(loaded, overrides, no_auth=no_auth))


@app.command(name="check-config")
def check_config_command(*, config_file: ConfigPath = None) -> None:
    """Read the configuration and say what is wrong with it."""
    from bascule.cli.serve import check_config

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
    from bascule.cli.serve import Overrides, list_models

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
    import uvloop

    from bascule.testing.mock import serve_mock

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
    import uvloop

    from bascule.cli.record import run_record

    uvloop.run(run_record(upstream, out, host, port))


_exec = cyclopts.App(
    name="exec", help="Have an agent do something in this folder, without asking anybody."
)
app.command(_exec)

Prompt = Annotated[str, Parameter(allow_leading_hyphen=True)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Answer:
    """How the answer of `exec` is wanted.

    Parameters
    ----------
    image
        An image for the prompt.
    json
        Write everything that happens to standard output, a JSON object a line.
    output_schema
        A file with a JSON schema that the answer has to fit.
    output_last_message
        A file for the answer.
    """

    image: Annotated[tuple[Path, ...], Parameter(negative="")] = ()
    json: Annotated[bool, Parameter(negative="")] = False
    output_schema: Path | None = None
    output_last_message: Path | None = None


_ANY: Final = Answer()


@_exec.default
def exec_command(prompt: Prompt, *, options: Options = NOTHING_SAID, answer: Answer = _ANY) -> int:
    """Have an agent do something, without asking anybody.

    With another `--approval` than `never`, what would be asked about is refused.

    Parameters
    ----------
    prompt
        What it is to do; `-` reads it from standard input.
    """
    return _run_exec(prompt, options, answer, None)


@_exec.command(name="resume")
def exec_resume(
    prompt: Prompt,
    *,
    session: str = "last",
    options: Options = NOTHING_SAID,
    answer: Answer = _ANY,
) -> int:
    """Go on with an earlier session.

    Parameters
    ----------
    prompt
        What it is to do now; `-` reads it from standard input.
    session
        Its id, or the beginning of it; by default the last one of this folder.
    """
    return _run_exec(prompt, options, answer, session)


@app.command
def chat(
    prompt: str | None = None, *, resume: str | None = None, options: Options = NOTHING_SAID
) -> int:
    """Work with an agent in this folder.

    Parameters
    ----------
    prompt
        What to begin with.
    resume
        The id of an earlier session, or the beginning of it; `last` is the last one of this folder.
    """
    from bascule.cli.chat import run_chat

    return run_chat(options, prompt, resume)


def _run_exec(prompt: str, options: Options, answer: Answer, resume: str | None) -> int:
    from bascule.services.sandbox import Bubblewrap

    sandbox = Bubblewrap()
    threading.Thread(target=sandbox.fault).start()  # it is tried while others are loaded
    gc.disable()  # as in `bascule.cli`
    from bascule.cli.exec import Request, run_exec

    gc.enable()
    request = Request(
        prompt=prompt,
        json=answer.json,
        output_schema=answer.output_schema,
        output_file=answer.output_last_message,
        images=answer.image,
        resume=resume,
    )
    return run_exec(options, request, sandbox)


def main() -> None:
    """Runs a command; faults of the configuration are one line on stderr and exit status 2."""
    try:
        app(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as e:
        status = _status(e)
        if status is None:
            raise
        sys.stderr.write(f"bascule: {e}\n")
        sys.exit(status)


def _status(error: Exception) -> int | None:
    """The exit status of an error that says all in one line."""
    if isinstance(error, ConfigError):
        return 2
    if isinstance(error, OSError):
        return 1
    # A class that was never loaded was never raised.
    known = {"bascule.testing": ("ScriptError", 2), "bascule.state.store": ("StoreError", 1)}
    for module, (name, status) in known.items():
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return status
    return None
