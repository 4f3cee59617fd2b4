"""Padding of stream events, so that the sizes of encrypted packets do not tell the text.

Deltas get a member `obfuscation` of random text whose length brings the event to a multiple of a block,
or one block further by chance. Source: responses-protocol 2 (`stream_options`) and recordings.
"""

import secrets
import string
from collections.abc import Sequence
from typing import Final

from bascule.protocols.responses import door
from bascule.protocols.responses.events import Event

BLOCK: Final = 32
"""Bytes."""
_LETTERS: Final = string.ascii_letters + string.digits
_KEY: Final = b',"obfuscation":"'
_END: Final = b"}\n\n"


def encode(batch: Sequence[Event]) -> bytes:
    """SSE bytes of a batch, deltas padded."""
    return b"".join(map(_one, batch))


def _one(event: Event) -> bytes:
    data = door.encode((event,))
    name = data[: data.index(b"\n")]
    if not name.endswith(b".delta"):
        return data
    size = len(data) + len(_KEY) + 1
    length = -size % BLOCK + BLOCK * secrets.randbelow(2)
    padding = "".join(secrets.choice(_LETTERS) for _ in range(length)).encode()
    return b"".join((data[: -len(_END)], _KEY, padding, b'"', _END))
