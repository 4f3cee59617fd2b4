"""Which addresses a URL from a request may lead to: public ones, and what the operator allows.

What a model, a client or a web page names is not trusted: it could name the machine itself, its
network, or a cloud's metadata service. A host is resolved once, every answer is judged, and what was
judged is what connects, so that a name cannot mean something else a moment later.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from bascule.config import ConfigError

if TYPE_CHECKING:
    import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")
_EMBEDDING: Final = (
    (ipaddress.ip_network("64:ff9b::/96"), 0),
    (ipaddress.ip_network("64:ff9b:1::/48"), 0),
    (ipaddress.ip_network("2002::/16"), 80),
)
"""Networks whose addresses hold an IPv4 address, and how many bits come after it."""
_TEREDO: Final = ipaddress.ip_network("2001::/32")
_LOCAL_NAMES: Final = ("localhost", "local", "internal", "localdomain", "onion")
_NUMBERS: Final = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+)){0,3}")


class EgressError(Exception):
    """The message is for the model and the client: it names the host as they know it, no address."""

    loggable = True

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Resolver(Protocol):
    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Addresses of a host name. Raises OSError."""
        ...


class SystemResolver:
    async def resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(cast("tuple[Any, ...]", info[4])[0]) for info in found]
        return list(dict.fromkeys(addresses))


class EgressPolicy(msgspec.Struct, frozen=True):
    """`hosts` are names or IP literals that may be anything, on any port, without TLS too."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str], networks: Iterable[str], place: str) -> "EgressPolicy":
        """From configuration. Raises ConfigError that names the key below `place`."""
        names: set[str] = set()
        for i, host in enumerate(hosts):
            name = _canonical(host)
            if not name or "/" in name or "@" in name or (":" in name and _literal(name) is None):
                raise ConfigError(
                    f"{place}.allow_hosts[{i}]: a host name or an IP address without a port"
                )
            names.add(name)
        ranges: list[Network] = []
        for i, network in enumerate(networks):
            try:
                ranges.append(ipaddress.ip_network(network, strict=False))
            except ValueError:
                raise ConfigError(
                    f"{place}.allow_networks[{i}]: '{network}' is no network such as 10.0.0.0/8"
                ) from None
        return cls(frozenset(names), tuple(ranges))

    def joined(self, other: "EgressPolicy") -> "EgressPolicy":
        """What either allows."""
        return EgressPolicy(self.hosts | other.hosts, self.networks + other.networks)

    def allows(self, address: Address) -> bool:
        if any(address in network for network in self.networks):
            return True
        return is_public(address)


class Guard:
    """Judges URLs and addresses by a policy."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver | None = None) -> None:
        self._policy = policy
        self._resolver = resolver or SystemResolver()

    async def addresses(self, url: "httpx2.URL") -> list[str]:
        """Where a URL may connect to, at least one. Raises EgressError."""
        host = check_url(url)
        if host in self._policy.hosts:
            literal = _literal(host)
            return [str(literal)] if literal is not None else await self._resolved(host, url)
        literal = _literal(host)
        if literal is not None:
            if not self._policy.allows(literal):
                raise _blocked(host)
            return [str(literal)]
        if _is_odd_number(host) or _is_local(host):
            raise _blocked(host)
        found = await self._resolved(host, url)
        for text in found:
            address = _literal(text)
            if address is None or not self._policy.allows(address):
                raise _blocked(host)
        return found

    async def _resolved(self, host: str, url: "httpx2.URL") -> list[str]:
        try:
            found = await self._resolver.resolve(host, _port(url))
        except (OSError, UnicodeError):
            found = list[str]()
        if not found:
            raise EgressError("unreachable", f"The host '{host}' cannot be found.")
        return list(found)


def check_url(url: "httpx2.URL") -> str:
    """The host in lower case without its last dot. Raises EgressError for what is no web address, and
    for one that carries credentials."""
    if url.scheme not in ("http", "https"):
        raise EgressError("invalid_url", "Only http and https addresses can be reached.")
    host = _canonical(url.raw_host.decode("ascii", "replace"))
    if not host or any(sign in host for sign in "%/\\@ ") or not host.isascii():
        raise EgressError("invalid_url", "The address has no valid host.")
    if url.userinfo:
        raise EgressError("invalid_url", "The address must not hold a user name or password.")
    return host


def is_public(address: Address) -> bool:
    """Whether an address belongs to the internet at large, and so does each one that it wraps."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None or address.is_site_local:
            return False
        inner = address.ipv4_mapped or _embedded(address)
        if inner is not None:
            return is_public(inner)
    elif address in _SHARED:
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    number = int(address)
    for network, after in _EMBEDDING:
        if address in network:
            return ipaddress.IPv4Address((number >> after) & 0xFFFFFFFF)
    if address in _TEREDO:
        return ipaddress.IPv4Address(~number & 0xFFFFFFFF)
    if number >> 32 == 0 and number > 1:  # the old IPv4-compatible form, ::10.0.0.1
        return ipaddress.IPv4Address(number)
    return None


def _canonical(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_odd_number(host: str) -> bool:
    """Whether a resolver would read the host as an IPv4 address in some old notation."""
    return _NUMBERS.fullmatch(host) is not None


def _is_local(host: str) -> bool:
    return host.rpartition(".")[2] in _LOCAL_NAMES or host.endswith(".home.arpa")


def _port(url: "httpx2.URL") -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _blocked(host: str) -> EgressError:
    return EgressError("egress_blocked", f"This server may not connect to '{host}'.")
