"""The configuration: a TOML file and `BASCULE__SECTION__KEY` variables, read strictly.

An unknown key, a wrong type or a value out of range is a ConfigError that names the place.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

ENV_PREFIX: Final = "BASCULE__"
S = TypeVar("S", bound=msgspec.Struct)


class ConfigError(ValueError):
    """Says what is wrong, and where."""


class Secret:
    """A value that no repr, log or error shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


Positive = Annotated[int, Meta(gt=0)]
Modality = Literal["text", "image"]
NotNegative = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]


class ServerSection(_Section, frozen=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8787
    api_keys: tuple[Secret, ...] = ()
    sse_done: bool = False
    """End streams with `data: [DONE]`, as Open Responses asks and OpenAI does not do."""
    drain_seconds: Seconds = 30


class StateSection(_Section, frozen=True):
    url: Secret | None = None
    """By default a SQLite file in the XDG data folder. It may hold a password."""
    retention_days: Annotated[float, Meta(ge=0)] = 30
    """Older responses are deleted; 0 keeps them for ever."""


class SecuritySection(_Section, frozen=True):
    keys: tuple[Secret, ...] = ()
    """Sealing keys, 32 bytes in base64 or hexadecimal: the first seals, all open."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that URLs from requests may lead to, whatever address they have, on any port."""
    allow_networks: tuple[str, ...] = ()
    """Networks that they may lead to besides public addresses, such as `10.1.0.0/16`."""


class LimitsSection(_Section, frozen=True):
    max_body_bytes: Positive = 64 * 1024 * 1024
    max_items: Positive = 10_000
    max_tools: Positive = 1024
    max_deferred_tools: Positive = 256
    """Deferred tools that are offered at once to a model that cannot search for them."""
    max_concurrent_turns: Positive = 2000


class TelemetrySection(_Section, frozen=True):
    log: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    metrics_key: Secret | None = None
    """Opens `/metrics` and nothing else."""
    otlp_endpoint: str | None = None
    """An OpenTelemetry collector (OTLP over HTTP)."""
    trace_dir: str | None = None
    """A folder for each round's request and answer, content included."""
    tool_names: bool = False
    """Whether spans and log lines of the gateway's own tool calls hold the tool's name and call id."""
    tool_content: bool = False
    """Whether they hold arguments and results."""


class UpstreamSection(_Section, frozen=True):
    name: str
    base_url: str
    profile: str = "custom"
    protocol: Literal["chat", "responses"] = "chat"
    api_key: Secret | None = None
    """`client` forwards the client's own key."""
    models: tuple[str, ...] = ("*",)
    flags: dict[str, Any] = {}
    timeout: Seconds = 600
    """To the answer's first byte, and between two reads."""


class ModelSection(_Section, frozen=True):
    name: str
    upstream: str
    model: str | None = None
    """Its name at the upstream, if that differs."""
    aliases: tuple[str, ...] = ()
    default: bool = False
    context_length: Positive | None = None
    """Tokens of prompt and answer together; by default what the upstream says."""
    max_output_tokens: Positive | None = None
    """Tokens of an answer; a request that asks for more is a 400."""
    input: tuple[Modality, ...] | None = None
    """What the model reads; by default what the upstream says."""
    flags: dict[str, Any] = {}


class McpToolFilter(_Section, frozen=True):
    """Tools of these names, those that only read (or only those that do not), or both."""

    tool_names: tuple[str, ...] | None = None
    read_only: bool | None = None


class McpApprovals(_Section, frozen=True):
    """Calls of which tools always need an approval, and of which never."""

    always: McpToolFilter | None = None
    never: McpToolFilter | None = None


class McpOAuth(_Section, frozen=True):
    """OAuth client credentials."""

    client_id: str
    client_secret: Secret
    issuer: str
    """The authorization server that knows the client."""
    scopes: str | None = None


class McpServerSection(_Section, frozen=True):
    """A server of the operator's, which requests name by its label: a URL or a command."""

    label: str
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, Secret] = {}
    headers: dict[str, Secret] = {}
    oauth: McpOAuth | None = None
    allowed_tools: tuple[str, ...] | McpToolFilter | None = None
    require_approval: Literal["always", "never"] | McpApprovals | None = None
    """The stricter of this and what a request says counts."""
    timeout: Seconds | None = None
    """Seconds of a call without a sign of life; by default that of `[tools.mcp]`."""


class AgentSection(_Section, frozen=True):
    """`bascule exec` and `bascule chat`."""

    model: str | None = None
    """By default the first that the endpoint lists."""
    base_url: str = "http://127.0.0.1:8787/v1"
    """An endpoint of the Responses API: by default the gateway on this machine."""
    api_key: Secret | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    approval: Literal["untrusted", "on-request", "on-failure", "never"] = "on-request"
    """Of `chat`; in `exec` nobody can be asked, and it is `never` unless the command line says otherwise."""
    network: bool = False
    """Whether commands in a sandbox may use the network."""
    writable_roots: tuple[str, ...] = ()
    """Folders besides the working one that they may write to."""
    rules: tuple[str, ...] = ()
    """Files of prefix rules, besides `rules.toml` in the agent's own folder."""
    instructions: str | None = None
    """A file that takes the place of the built-in instructions."""
    reasoning_effort: str | None = None
    env_keep: tuple[str, ...] = ()
    """Variables that commands are given although they look like secrets."""
    max_rounds: Positive = 500
    tools: dict[str, Any] = {}
    """Which tools the model is offered, and how: see docs/agent.md."""


class ToolsSection(_Section, frozen=True):
    max_rounds: Positive = 10
    max_concurrent_calls: Positive = 5
    max_reasks: NotNegative = 2
    """How often a round is asked again whose answer does not follow its tool choice."""
    max_result_bytes: Positive = 1024 * 1024
    modules: tuple[str, ...] = ()
    """Python modules with tools: names, or files (`load` makes their paths absolute)."""
    aliases: dict[str, str] = {}
    """Functions of clients by name, and the tool type that runs their calls here instead."""
    by_type: dict[str, dict[str, Any]] = {}
    """`[tools.TYPE]`, raw: each handler reads its own."""


class Config(_Section, frozen=True):
    """The whole configuration."""

    server: ServerSection = ServerSection()
    state: StateSection = StateSection()
    security: SecuritySection = SecuritySection()
    limits: LimitsSection = LimitsSection()
    telemetry: TelemetrySection = TelemetrySection()
    upstreams: tuple[UpstreamSection, ...] = ()
    models: tuple[ModelSection, ...] = ()
    tools: ToolsSection = ToolsSection()
    mcp_servers: tuple[McpServerSection, ...] = ()
    agent: AgentSection = AgentSection()


def find_file() -> Path | None:
    """`./bascule.toml`, else `bascule/bascule.toml` in the XDG config folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    for path in (Path("bascule.toml"), Path(home) / "bascule" / "bascule.toml"):
        if path.is_file():
            return path
    return None


def data_folder() -> Path:
    """The XDG data folder of Bascule; not created here."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "bascule"


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """Read a file (none: defaults) and the environment. Raises ConfigError."""
    environ = os.environ if environ is None else environ
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(path.read_text())
        except OSError as e:
            raise ConfigError(f"cannot read {path}: {e.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise ConfigError(f"{path} is not valid TOML: {e}") from None
    _override(tree, environ)
    _absolute_modules(tree, Path.cwd() if path is None else path.absolute().parent)
    return convert(tree, environ)


def is_file_of_tools(module: str) -> bool:
    """Whether an entry of `tools.modules` is a file, not the name of a module."""
    return module.endswith(".py") or "/" in module


def _absolute_modules(tree: dict[str, Any], folder: Path) -> None:
    """A file of tools is looked for from the folder of the configuration."""
    tools: Any = tree.get("tools")
    modules: Any = cast("dict[str, Any]", tools).get("modules") if isinstance(tools, dict) else None
    if isinstance(modules, list):
        entries = cast("list[Any]", modules)
        for i, entry in enumerate(entries):
            if isinstance(entry, str) and is_file_of_tools(entry):
                entries[i] = str(folder / entry)


def read_table(
    type_: type[S],
    table: Mapping[str, Any],
    place: str,
    environ: Mapping[str, str] | None = None,
) -> S:
    """A table that its owner reads, such as `[tools.TYPE]`; fields of type `Secret` are read as
    everywhere. Raises ConfigError that names the place."""
    environ = os.environ if environ is None else environ
    try:
        return msgspec.convert(dict(table), type_, dec_hook=_secret_reader(environ))
    except msgspec.ValidationError as e:
        raise ConfigError(_place(str(e), place)) from None


def convert(tree: dict[str, Any], environ: Mapping[str, str] | None = None) -> Config:
    """A configuration from nested tables. Raises ConfigError."""
    environ = os.environ if environ is None else environ
    tree = dict(tree)
    tools = tree.get("tools")
    if isinstance(tools, dict):
        tree["tools"] = _split_tools(cast("dict[str, Any]", tools))
    try:
        config = msgspec.convert(tree, Config, dec_hook=_secret_reader(environ))
    except msgspec.ValidationError as e:
        raise ConfigError(_place(str(e))) from None
    _check(config)
    return config


def _split_tools(tools: dict[str, Any]) -> dict[str, Any]:
    known = set(ToolsSection.__struct_fields__) - {"by_type"}
    by_type = {name: value for name, value in tools.items() if name not in known}
    for name, value in by_type.items():
        if not isinstance(value, dict):
            raise ConfigError(f"tools.{name}: unknown key")
    return {**{k: v for k, v in tools.items() if k in known}, "by_type": by_type}


def _check(config: Config) -> None:
    names = [upstream.name for upstream in config.upstreams]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ConfigError(f"upstreams[{i}].name: '{name}' is used twice")
        if not name or "/" in name:
            raise ConfigError(f"upstreams[{i}].name: '{name}' must not be empty or hold a slash")
        if not config.upstreams[i].base_url.startswith(("http://", "https://")):
            raise ConfigError(f"upstreams[{i}].base_url: it must begin with http:// or https://")
    for i, model in enumerate(config.models):
        if model.upstream not in names:
            raise ConfigError(f"models[{i}].upstream: there is no upstream '{model.upstream}'")
    _check_names(config.models)
    _check_mcp_servers(config.mcp_servers)
    if sum(model.default for model in config.models) > 1:
        raise ConfigError("models: more than one is the default")


def _check_mcp_servers(servers: tuple[McpServerSection, ...]) -> None:
    labels = [server.label for server in servers]
    for i, server in enumerate(servers):
        place = f"mcp_servers[{i}]"
        if not server.label or server.label in labels[:i]:
            what = "is used twice" if server.label else "must not be empty"
            raise ConfigError(f"{place}.label: '{server.label}' {what}")
        if (server.url is None) == (server.command is None):
            raise ConfigError(f"{place}: it needs either a url or a command")
        if server.url is not None and not server.url.startswith(("http://", "https://")):
            raise ConfigError(f"{place}.url: it must begin with http:// or https://")
        for key in ("args", "env"):
            if server.url is not None and getattr(server, key):
                raise ConfigError(f"{place}.{key}: it belongs to a command")
        for key in ("headers", "oauth"):
            if server.command is not None and getattr(server, key):
                raise ConfigError(f"{place}.{key}: it belongs to a url")


def is_glob(name: str) -> bool:
    """Whether an alias stands for many names."""
    return "*" in name or "?" in name


def _check_names(models: tuple[ModelSection, ...]) -> None:
    """Names and aliases mean one model each."""
    named: dict[str, int] = {}
    for i, model in enumerate(models):
        if not model.name:
            raise ConfigError(f"models[{i}].name: it is empty")
        if model.name in named:
            raise ConfigError(f"models[{i}].name: the name '{model.name}' is used twice")
        named[model.name] = i
    aliases: dict[str, int] = {}
    for i, model in enumerate(models):
        for j, alias in enumerate(model.aliases):
            place = f"models[{i}].aliases[{j}]"
            if not alias:
                raise ConfigError(f"{place}: it is empty")
            if alias == model.name:
                raise ConfigError(f"{place}: '{alias}' is the model's own name")
            if alias in named:
                other = models[named[alias]]
                loop = f"; '{alias}' has the alias '{model.name}': a loop"
                raise ConfigError(
                    f"{place}: '{alias}' is the name of another model"
                    f"{loop if model.name in other.aliases else ''}"
                )
            if alias in aliases:
                raise ConfigError(
                    f"{place}: '{alias}' is also an alias of '{models[aliases[alias]].name}'"
                )
            aliases[alias] = i


def _secret_reader(environ: Mapping[str, str]) -> Any:
    def read(type_: type, value: Any) -> Any:
        if type_ is not Secret:
            raise NotImplementedError(type_)
        if not isinstance(value, str):
            raise ValueError("expected a text")  # noqa: TRY004 -- msgspec reports ValueErrors
        kind, _, rest = value.partition(":")
        if kind == "env":
            if rest not in environ:
                raise ValueError(f"the variable {rest} is not set")
            value = environ[rest]
        elif kind == "file":
            try:
                value = Path(rest).read_text().strip()
            except OSError as e:
                raise ValueError(f"cannot read {rest}: {e.strerror}") from None
        if not value:
            raise ValueError("the secret is empty")
        return Secret(value)

    return read


def _override(tree: dict[str, Any], environ: Mapping[str, str]) -> None:
    names = [name for name in environ if name.startswith(ENV_PREFIX)]
    for name in sorted(names, key=_by_index):
        path = name.removeprefix(ENV_PREFIX).lower().split("__")
        try:
            _set(tree, path, _value(environ[name], text_only=_is_text(path)))
        except (IndexError, TypeError, ValueError):
            raise ConfigError(f"{name} does not name a place in the configuration") from None


def _by_index(name: str) -> list[str]:
    return [step.zfill(9) if step.isdigit() else step for step in name.split("__")]


def _is_text(path: list[str]) -> bool:
    """Whether a place holds text and nothing else: 123 is a good API key."""
    at: Any = Config
    for step in path:
        if isinstance(at, type) and issubclass(at, msgspec.Struct):
            at = get_type_hints(at).get(step)
        elif get_origin(at) is tuple and step.isdigit():
            at = get_args(at)[0]
        else:
            return False
    return at in (str, Secret) or set(get_args(at)) in ({str, NoneType}, {Secret, NoneType})


def _value(text: str, *, text_only: bool) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = read.pop("value")
    return text if read or (text_only and not isinstance(value, str)) else value


def _set(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a place, making tables and lists on the way; a list's next index appends."""
    if not all(path):
        raise ValueError(path)
    at: Any = tree
    for step, following in zip(path, [*path[1:], None], strict=True):
        last = following is None
        new: Any = value if last else ([] if following.isdigit() else {})
        if isinstance(at, list):
            at = _at_index(cast("list[Any]", at), int(step), new, last=last)
        else:
            table = cast("dict[str, Any]", at)
            if last:
                table[step] = new
            at = table.setdefault(step, new)


def _at_index(items: list[Any], index: int, new: Any, *, last: bool) -> Any:
    if index > len(items):
        raise IndexError(index)
    if index == len(items):
        items.append(new)
    elif last:
        items[index] = new
    return items[index]


def _place(message: str, table: str = "") -> str:
    """`server.port: Expected ...` instead of msgspec's order; `table` is where `$` is."""
    text, _, place = message.partition(" - at `")
    place = (table + place.rstrip("`").removeprefix("$")).removeprefix(".")
    if "unknown field" in text:
        field = text.rpartition("`")[0].rpartition("`")[2]
        return f"{place}.{field}: unknown key" if place else f"{field}: unknown key"
    return f"{place.removesuffix('[...]')}: {text}" if place else text
