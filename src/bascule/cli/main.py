"""The commands and their options."""

import asyncio
import gc
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import cyclopts
from cyclopts import Parameter

from bascule import config
from bascule.cli.agent_options import ApprovalPolicy, ConfigFile, SandboxMode
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
Images = Annotated[tuple[Path, ...], Parameter(name="--image", negative="")]
Folders = Annotated[tuple[Path, ...], Parameter(name="--add-dir", negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]


@_exec.default
def exec_command(
    prompt: Prompt,
    *,
    config_file: ConfigFile = None,
    model: str | None = None,
    base_url: str | None = None,
    sandbox: SandboxMode | None = None,
    approval: ApprovalPolicy | None = None,
    network: bool | None = None,
    add_dir: Folders = (),
    cd: Path | None = None,
    image: Images = (),
    json_lines: Json = False,
    output_schema: Path | None = None,
    output_last_message: Path | None = None,
) -> int:
    """Have an agent do something, without asking anybody.

    Parameters
    ----------
    prompt
        What it is to do; `-` reads it from standard input.
    model
        The model; by default the configured one, else the first that the endpoint lists.
    base_url
        An endpoint of the Responses API; by default the gateway on this machine.
    sandbox
        What commands may change: nothing, this folder, or everything.
    approval
        What needs somebody's yes. Nobody can be asked here, so all but `never` refuses more.
    network
        Whether commands in a sandbox may use the network.
    add_dir
        A further folder that they may write to.
    cd
        The folder to work in.
    image
        An image for the prompt.
    json_lines
        Write everything that happens to standard output, a JSON object a line.
    output_schema
        A file with a JSON schema that the answer has to fit.
    output_last_message
        A file for the answer.
    """
    return _run_exec(
        locals(), prompt, image, json_lines, output_schema, output_last_message, resume=None
    )


@_exec.command(name="resume")
def exec_resume(
    prompt: Prompt,
    *,
    session: str = "last",
    config_file: ConfigFile = None,
    model: str | None = None,
    base_url: str | None = None,
    sandbox: SandboxMode | None = None,
    approval: ApprovalPolicy | None = None,
    network: bool | None = None,
    add_dir: Folders = (),
    cd: Path | None = None,
    image: Images = (),
    json_lines: Json = False,
    output_schema: Path | None = None,
    output_last_message: Path | None = None,
) -> int:
    """Go on with an earlier session. The options are those of `exec`.

    Parameters
    ----------
    prompt
        What it is to do now; `-` reads it from standard input.
    session
        Its id, or the beginning of it; by default the last one of this folder.
    """
    return _run_exec(
        locals(), prompt, image, json_lines, output_schema, output_last_message, resume=session
    )


@app.command
def chat(
    prompt: str | None = None,
    *,
    config_file: ConfigFile = None,
    model: str | None = None,
    base_url: str | None = None,
    sandbox: SandboxMode | None = None,
    approval: ApprovalPolicy | None = None,
    network: bool | None = None,
    add_dir: Folders = (),
    cd: Path | None = None,
    resume: str | None = None,
) -> int:
    """Work with an agent in this folder.

    Parameters
    ----------
    prompt
        What to begin with.
    approval
        What you are asked about: all that is not known to only read, what the model asks for, what the
        sandbox stopped, or nothing.
    resume
        The id of an earlier session, or the beginning of it; `last` is the last one of this folder.
    """
    given = locals()
    from bascule.cli.agent_options import Options
    from bascule.cli.chat import run_chat

    return run_chat(Options(**{name: given[name] for name in Options.__struct_fields__}), prompt)


def _run_exec(
    given: dict[str, Any],
    prompt: str,
    image: tuple[Path, ...],
    json_lines: bool,
    output_schema: Path | None,
    output_last_message: Path | None,
    resume: str | None,
) -> int:
    from bascule.cli.agent_options import Options
    from bascule.services.sandbox import Bubblewrap

    sandbox = Bubblewrap()
    threading.Thread(target=sandbox.fault).start()  # it is tried while others are loaded
    gc.disable()  # as in `bascule.cli`
    from bascule.cli.exec import Request, run_exec

    gc.enable()
    names = set(Options.__struct_fields__) - {"resume"}
    options = Options(**{name: given[name] for name in names}, resume=resume)
    request = Request(
        prompt=prompt,
        json=json_lines,
        output_schema=output_schema,
        output_file=output_last_message,
        images=image,
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
