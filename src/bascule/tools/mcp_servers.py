"""The MCP servers of a gateway: the operator's, and those that requests declare."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from bascule.config import Config, ConfigError, McpServerSection
from bascule.protocols.errors import invalid
from bascule.services.egress import EgressPolicy, Guard
from bascule.services.mcp import ClientCredentials, McpPool, McpServer
from bascule.toolkit.options import ToolOptions
from bascule.tools.mcp_params import McpParams


class McpOptions(ToolOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[tools.mcp]`. `timeout` is the time without a sign of life."""

    allow_hosts: tuple[str, ...] = ()
    """Hosts that a request's `server_url` may lead to besides public ones."""
    allow_networks: tuple[str, ...] = ()
    connectors: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """The URL of each `connector_id`."""
    max_seconds: float = 600.0
    """Of one call, however often it tells of progress."""
    connect_timeout: float = 20.0
    """Seconds for a connection, and for each page of a list of tools."""
    max_connections: int = 100
    idle_seconds: float = 300.0
    """After which a connection that nobody uses is closed."""


class McpServers:
    """Finds a declaration's server, and keeps the connections."""

    def __init__(self, options: McpOptions, config: Config) -> None:
        """Raises ConfigError."""
        self.options = options
        self.configured: Mapping[str, McpServerSection] = {s.label: s for s in config.mcp_servers}
        for id_, url in options.connectors.items():
            if urlsplit(url).scheme not in ("http", "https"):
                raise ConfigError(f"tools.mcp.connectors.{id_}: it must begin with http or https")
        security = config.security
        policy = EgressPolicy.of(security.allow_hosts, security.allow_networks, "security")
        own = EgressPolicy.of(options.allow_hosts, options.allow_networks, "tools.mcp")
        self.pool = McpPool(
            Guard(policy.joined(own)),
            max_connections=options.max_connections,
            idle_seconds=options.idle_seconds,
            max_result_bytes=max(4 * config.tools.max_result_bytes, 1024 * 1024),
        )

    def section(self, params: McpParams) -> McpServerSection | None:
        """What the operator has said of a declaration's server: of one that it names by its label."""
        if params.server_url is not None or params.connector_id is not None:
            return None
        return self.configured.get(params.server_label)

    def find(self, params: McpParams, owner: str) -> McpServer:
        """Raises KeyError for a label or a connector that nobody knows."""
        label, headers = params.server_label, _headers(params)
        patience = self.options.connect_timeout
        if params.server_url is not None:
            return McpServer(
                label=label,
                url=params.server_url,
                headers=headers,
                owner=owner,
                connect_timeout=patience,
            )
        if params.connector_id is not None:
            url = self.options.connectors[params.connector_id]
            return McpServer(
                label=label,
                url=url,
                headers=headers,
                owner=owner,
                guarded=False,
                connect_timeout=patience,
            )
        section = self.configured[label]
        oauth = section.oauth
        own = {name: value.reveal() for name, value in section.headers.items()}
        known = {name.lower() for name in own}
        extra = {name: value for name, value in headers.items() if name.lower() not in known}
        return McpServer(
            label=label,
            connect_timeout=patience,
            url=section.url,
            command=section.command,
            args=section.args,
            env={name: value.reveal() for name, value in section.env.items()},
            headers={**extra, **own},
            oauth=None
            if oauth is None
            else ClientCredentials(
                oauth.client_id, oauth.client_secret, oauth.issuer, oauth.scopes
            ),
            guarded=False,
            # What a client brings along is its own; without that all share one connection.
            shared=not extra,
            owner=owner if extra else "",
        )

    def check(self, params: McpParams, param: str) -> None:
        """Raises ApiError 400 for a connector that the operator does not know."""
        id_ = params.connector_id
        if id_ is not None and id_ not in self.options.connectors:
            raise invalid(
                f"The connector '{id_}' is not known to this server.",
                f"{param}.connector_id",
                "invalid_value",
            )

    def seconds(self, params: McpParams) -> float:
        """Of a call without a sign of life."""
        section = self.section(params)
        if section is not None and section.timeout is not None:
            return section.timeout
        return 60.0 if self.options.timeout is None else self.options.timeout


def _headers(params: McpParams) -> dict[str, str]:
    headers = dict(params.headers or {})
    if params.authorization is not None:
        token = params.authorization
        bearer = token if token.lower().startswith(("bearer ", "basic ")) else f"Bearer {token}"
        headers = {n: v for n, v in headers.items() if n.lower() != "authorization"}
        headers["Authorization"] = bearer
    return headers


def whole(options: McpOptions) -> ToolOptions:
    """What the scheduler holds a call to: progress is this tool's own business."""
    return msgspec.structs.replace(options, timeout=options.max_seconds)
