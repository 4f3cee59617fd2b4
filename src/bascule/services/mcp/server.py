"""Which server, and how it is reached."""

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from bascule.config import Secret


class ClientCredentials(msgspec.Struct, frozen=True):
    """OAuth for machines: the client proves itself, no user does."""

    client_id: str
    client_secret: Secret
    issuer: str | None
    """The authorization server that the client is known to: tokens come from no other. Without one, from
    whichever the server names."""
    scopes: str | None = None


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A URL, or a command whose standard input and output are the connection."""

    label: str
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """Credentials among them: they are neither logged nor shown."""
    oauth: ClientCredentials | None = None
    guarded: bool = True
    """Whether the URL comes from a request, so that it must not lead anywhere but outside."""
    shared: bool = False
    """Whether it is the operator's, and no client has added anything: one connection serves all, and its
    health is the operator's business."""
    owner: str = ""
    """Whose it is: connections with what one client has sent serve nobody else."""
    connect_timeout: float = 20.0
    """Seconds for a connection and its handshake, and for each page of a list."""

    @property
    def key(self) -> str:
        """What makes two servers the same connection; a digest, since it covers credentials."""
        secret = None if self.oauth is None else self.oauth.client_secret.reveal()
        oauth = None if self.oauth is None else (self.oauth.client_id, secret, self.oauth.issuer)
        parts = (
            *(self.url, self.command, self.args, sorted(self.env.items())),
            *(sorted(self.headers.items()), oauth, self.guarded, self.owner),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def shown(self) -> str:
        """What logs and health reports call it: label and host, or the program."""
        where = urlsplit(self.url).hostname if self.url is not None else self.command
        return f"{self.label} ({where})"
