"""How an ordered list of item keys is stored.

A long chain repeats its history in every row, so the list is packed: minted keys (one prefix, then
hexadecimal digits, all of one length) take half their letters and no separator. Any other list is
stored as JSON, marked by its first byte.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

_JSON: Final = b"\x00"
_HEX: Final = b"\x01"
_MAX_PART: Final = 255
_SEPARATOR: Final = "\n"


def pack(keys: Sequence[str]) -> bytes:
    """The stored form of `keys`; nothing at all for an empty list."""
    if not keys:
        return b""
    return _pack_hex(keys) or _JSON + msgspec.json.encode(keys)


def unpack(data: bytes) -> list[str]:
    """The keys that `pack` was given, in order.

    Raises ValueError when `data` is not of its making.
    """
    if not data:
        return []
    if data[:1] == _HEX:
        return _unpack_hex(data)
    if data[:1] == _JSON:
        return msgspec.json.decode(data[1:], type=list[str])
    raise ValueError("not a key list")


def _pack_hex(keys: Sequence[str]) -> bytes | None:
    # By operations on the joined text: a list has thousands of keys, and a step for each is dear.
    first = keys[0]
    prefix = first[: first.rfind("_") + 1]
    digits = len(first) - len(prefix)
    if not digits or max(digits, len(prefix)) > _MAX_PART or set(map(len, keys)) != {len(first)}:
        return None
    text = "".join(keys)
    if prefix:
        # Each key is the prefix and as many digits as the first: nothing before, nothing between.
        head, *tails = text.split(prefix)
        if head or len(tails) != len(keys) or set(map(len, tails)) != {digits}:
            return None
        text = "".join(tails)
    return _packed(prefix, digits, text)


def _packed(prefix: str, digits: int, text: str) -> bytes | None:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    # fromhex also takes capitals and spaces.
    if raw.hex() != text or digits % 2 or not prefix.isascii() or _SEPARATOR in prefix:
        return None
    return b"".join((_HEX, bytes((len(prefix), digits)), prefix.encode(), raw))


def _unpack_hex(data: bytes) -> list[str]:
    start, digits = 3 + data[1], data[2]
    prefix = data[3:start].decode()
    text = data[start:].hex(_SEPARATOR, digits // 2)
    return (prefix + text.replace(_SEPARATOR, _SEPARATOR + prefix)).split(_SEPARATOR)
