"""An agent from the configuration and the command line, for `exec` and `chat`."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from bascule import config
from bascule.agent.settings import ToolsConfig
from bascule.config import AgentSection, Config, ConfigError, read_table

SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
ApprovalPolicy = Literal["untrusted", "on-request", "on-failure", "never"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says; None leaves it to the configuration.

    Parameters
    ----------
    config_file
        default: the XDG folder's bascule.toml
    model
        The model; by default the configured one, else the first that the endpoint lists.
    base_url
        An endpoint of the Responses API; by default the gateway on this machine.
    sandbox
        What commands may change: nothing, this folder, or everything.
    approval
        What needs somebody's yes: all that is not known to only read, what the model asks for, what the
        sandbox stopped, or nothing.
    network
        Whether commands in a sandbox may use the network.
    add_dir
        A further folder that they may write to.
    cd
        The folder to work in.
    """

    config_file: Annotated[Path | None, Parameter(name="--config")] = None
    model: str | None = None
    base_url: str | None = None
    sandbox: SandboxMode | None = None
    approval: ApprovalPolicy | None = None
    network: bool | None = None
    add_dir: Annotated[tuple[Path, ...], Parameter(negative="")] = ()
    cd: Path | None = None


NOTHING_SAID = Options()


def load(options: Options) -> Config:
    """The user's configuration: the file named, or that of the XDG folder. One that lies in the working
    folder belongs to the project, and may come from anybody. Raises ConfigError."""
    if options.config_file is not None:
        return config.load(options.config_file)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(home) / "bascule" / "bascule.toml"
    return config.load(path if path.is_file() else None)


def arguments(
    loaded: Config, options: Options, model: str, resume: str | None = None
) -> dict[str, Any]:
    """What `Agent` is made with, but for what differs between the commands. Raises ConfigError."""
    section = loaded.agent
    cwd = Path.cwd() if options.cd is None else options.cd
    if not cwd.is_dir():
        raise ConfigError(f"--cd: {cwd} is no folder")
    return {
        "model": model,
        "base_url": base_url(section, options),
        "api_key": section.api_key,
        "cwd": cwd,
        "sandbox": options.sandbox or section.sandbox,
        "network": section.network if options.network is None else options.network,
        "writable_roots": [*section.writable_roots, *options.add_dir],
        "config": read_table(ToolsConfig, section.tools, "agent.tools"),
        "mcp_servers": loaded.mcp_servers,
        "rules": section.rules,
        "instructions": _instructions(section),
        "reasoning_effort": section.reasoning_effort,
        "max_rounds": section.max_rounds,
        "env_keep": section.env_keep,
        "resume": resume,
    }


def base_url(section: AgentSection, options: Options) -> str:
    """With `/v1` where there is no path. Raises ConfigError."""
    given = options.base_url or section.base_url
    if not given.startswith(("http://", "https://")):
        place = "--base-url" if options.base_url else "agent.base_url"
        raise ConfigError(f"{place}: it must begin with http:// or https://")
    scheme, _, rest = given.rstrip("/").partition("://")
    return f"{scheme}://{rest}" if "/" in rest else f"{scheme}://{rest}/v1"


def _instructions(section: AgentSection) -> str | None:
    if section.instructions is None:
        return None
    try:
        return Path(section.instructions).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"agent.instructions: cannot read {section.instructions}: {e}") from None


async def first_model(section: AgentSection, options: Options) -> str:
    """The model that is named, or the first that the endpoint lists. Raises ConfigError."""
    named = options.model or section.model
    if named is not None:
        return named
    from bascule.agent.agent import http_client
    from bascule.upstreams.client import UpstreamFailure, UpstreamRequest
    from bascule.upstreams.fetch import fetch

    url = base_url(section, options) + "/models"
    key = section.api_key
    headers = [(b"authorization", b"Bearer " + key.reveal().encode())] if key is not None else []
    http = http_client()
    try:
        answer = await fetch(http, UpstreamRequest(url=url, method="GET", headers=headers))
    except UpstreamFailure as e:
        hint = "; is a gateway running (`bascule serve`)?" if options.base_url is None else ""
        raise ConfigError(f"no model is named, and {url} does not list any: {e}{hint}") from None
    finally:
        await http.aclose()
    try:
        listed = msgspec.json.decode(answer.body, type=_Models).data
    except msgspec.DecodeError:
        listed = []
    if answer.status != 200 or not listed:
        raise ConfigError(f"no model is named, and {url} does not list any: say --model")
    return listed[0].id


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model] = []
