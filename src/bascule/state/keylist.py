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


def pack(keys: Sequence[str]) -> bytes:
    """The stored form of `keys`; nothing at all for an empty list."""
    if not keys:
        return b""
    packed = _pack_hex(keys)
    if packed is not None and unpack(packed) == list(keys):
        return packed
    return _JSON + msgspec.json.encode(keys)


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
    # Works on the joined text, not key by key: a list has thousands of keys. The caller compares
    # what comes out with what went in, so a list that only looks packable is no danger.
    first = keys[0]
    prefix = first[: first.rfind("_") + 1]
    digits = len(first) - len(prefix)
    if not digits or digits > _MAX_PART or len(prefix) > _MAX_PART or not prefix.isascii():
        return None
    joined = "".join(keys)
    try:
        raw = bytes.fromhex(joined.replace(prefix, "") if prefix else joined)
    except ValueError:
        return None
    return b"".join((_HEX, bytes((len(prefix), digits)), prefix.encode(), raw))


def _unpack_hex(data: bytes) -> list[str]:
    start, digits = 3 + data[1], data[2]
    prefix = data[3:start].decode()
    text = data[start:].hex()
    return [prefix + text[at : at + digits] for at in range(0, len(text), digits)]
