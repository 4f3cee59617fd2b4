"""Ids that the gateway mints. Prefixes help a reader; nothing routes on them."""

import os


def mint(prefix: str) -> str:
    """A new id such as `msg_` and 40 hexadecimal digits."""
    return f"{prefix}_{os.urandom(20).hex()}"
