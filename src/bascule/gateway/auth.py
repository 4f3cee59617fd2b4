"""Who is asking: API keys, compared in constant time, and the owner of what is stored."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence

from bascule.config import Secret
from bascule.protocols.errors import ApiError

Headers = Iterable[tuple[bytes, bytes]]


def presented_keys(headers: Headers) -> list[str]:
    """All keys of a request; a blank one does not hide another."""
    keys: list[str] = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                keys.append(token.strip().decode("latin-1"))
        elif name == b"x-api-key":
            keys.append(value.strip().decode("latin-1"))
    return [key for key in keys if key]


class Auth:
    """Without keys everybody is let in, and nobody owns what is stored."""

    def __init__(self, keys: Sequence[Secret]) -> None:
        self._digests = [_digest(key.reveal()) for key in keys]

    def owner(self, headers: Headers) -> str:
        """The owner's id: a digest of the key, empty without authentication. ApiError 401."""
        if not self._digests:
            return ""
        keys = presented_keys(headers)
        for key in keys:
            digest = _digest(key)
            # Every digest is compared, so that the time does not tell which one matched.
            if sum(hmac.compare_digest(digest, known) for known in self._digests):
                return digest.hex()[:32]
        message = "Incorrect API key provided." if keys else "No API key provided."
        raise ApiError(401, message, code="invalid_api_key")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
