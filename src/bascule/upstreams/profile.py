"""A model server's kind: its flags, and where it listens by default."""

from typing import Any, Literal

import msgspec

from bascule.protocols.flags import FLATTEN, Flags, override


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """`port` is the well-known one on loopback, None for servers elsewhere."""

    name: str
    flags: Flags
    on_responses: dict[str, Any] = {}
    """Flags that differ when the server is spoken to by Responses."""
    port: int | None = None

    def flags_for(self, protocol: Literal["chat", "responses"]) -> Flags:
        """Raises ValueError for a flag that there is not."""
        if protocol == "responses":
            return override(self.flags, self.on_responses)
        return override(self.flags, {FLATTEN: True})
