"""A model server's kind: its flags, and where it listens by default."""

import msgspec

from bascule.protocols.flags import Flags


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """`port` is the well-known one on loopback, None for servers elsewhere."""

    name: str
    flags: Flags
    port: int | None = None
