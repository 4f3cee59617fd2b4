"""The ledger: one table per turn between a tool's identity and the name that the model server sees.

A top-level name goes out verbatim when it is legal, a namespaced tool as `namespace__name`. A name
that is illegal, too long, or taken by another identity keeps readable parts and ends in a hash of the
identity. Nothing is decoded by splitting a string, and a name that was given once never changes.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_LEGAL: Final = re.compile(r"[A-Za-z0-9_-]+")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH: Final = 10
DEFAULT_NAMESPACE: Final = "functions"
"""Its tools are the top-level ones."""


class Identity(NamedTuple):
    """What makes a tool itself; `kind` is the type under which it was declared."""

    namespace: str | None
    name: str
    kind: str

    @classmethod
    def of(cls, namespace: str | None, name: str, kind: str) -> "Identity":
        """With a namespace as a client says it."""
        return cls(None if namespace == DEFAULT_NAMESPACE else namespace or None, name, kind)


class Ledger:
    """Starts from names fixed earlier in the chain; `limit` is the longest name the server takes, and
    names that were given for a server which takes longer ones are given anew."""

    def __init__(self, limit: int = 64, fixed: Mapping[Identity, str] | None = None) -> None:
        self.limit: Final = limit
        fitting = {i: wire for i, wire in (fixed or {}).items() if len(wire) <= limit}
        self._wire: dict[Identity, str] = fitting
        self._identity = {wire: identity for identity, wire in self._wire.items()}

    def assign(self, identity: Identity) -> str:
        """The identity's wire name; minted at its first use."""
        wire = self._wire.get(identity)
        if wire is None:
            wire = self._mint(identity)
            self._wire[identity] = wire
            self._identity[wire] = identity
        return wire

    def assign_all(self, identities: Iterable[Identity]) -> None:
        """Names for one list: plain names first, so that the namespaced one takes the hash."""
        for identity in sorted(identities, key=_is_namespaced):
            self.assign(identity)

    def wire(self, identity: Identity) -> str | None:
        """The identity's wire name, if it has one."""
        return self._wire.get(identity)

    def identity(self, wire: str) -> Identity | None:
        return self._identity.get(wire)

    def table(self) -> dict[Identity, str]:
        """All that was assigned, to be kept with the response."""
        return dict(self._wire)

    def agrees(self, names: "Ledger") -> bool:
        """Whether the names of another ledger could be added without changing any name on either
        side."""
        if not self._wire:
            return True
        for identity, wire in names._wire.items():  # noqa: SLF001 -- of its own kind
            if self._wire.get(identity, wire) != wire:
                return False
            if self._identity.get(wire, identity) != identity:
                return False
        return True

    def adopt(self, names: "Ledger") -> None:
        """Add the names of a ledger with which this one agrees."""
        self._wire.update(names._wire)  # noqa: SLF001
        self._identity.update(names._identity)  # noqa: SLF001

    def _mint(self, identity: Identity) -> str:
        parts = [part for part in (identity.namespace, identity.name) if part]
        plain = "__".join(parts)
        legal = _LEGAL.fullmatch(plain) is not None and len(plain) <= self.limit
        if legal and plain not in self._identity:
            return plain
        readable = "__".join(_ILLEGAL.sub("_", part) for part in parts) or "tool"
        key = "\0".join((identity.namespace or "", identity.name, identity.kind))
        digest = hashlib.sha256(key.encode()).hexdigest()
        for length in range(_HASH, len(digest) + 1):
            room = self.limit - length - 1
            wire = f"{_shorten(readable, room)}_{digest[:length]}"
            if wire not in self._identity:
                return wire
        raise AssertionError("two identities with one SHA-256")


def _is_namespaced(identity: Identity) -> bool:
    return identity.namespace is not None


def _shorten(text: str, room: int) -> str:
    """The start of the namespace and the end of the tool's name say most."""
    if len(text) <= room:
        return text
    half = room // 2
    return text[:half] + text[len(text) - (room - half) :]
