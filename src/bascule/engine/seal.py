"""Seals what a client keeps for the gateway: reasoning with its origin, as `encrypted_content`."""

import base64
import os
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PREFIX: Final = "bsc1."
_NONCE: Final = 12


class SealedReasoning(msgspec.Struct, omit_defaults=True):
    """A reasoning item's inside. Only the model it came from understands `details`."""

    upstream: str
    model: str
    text: str
    details: list[msgspec.Raw] = []


_decode = msgspec.json.Decoder(SealedReasoning).decode


class Sealer:
    """The first key seals, all open. Keys are 32 bytes."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = [AESGCM(key) for key in keys]

    def __repr__(self) -> str:
        return f"Sealer({len(self._ciphers)} keys)"

    def seal(self, reasoning: SealedReasoning) -> str:
        nonce = os.urandom(_NONCE)
        sealed = self._ciphers[0].encrypt(nonce, msgspec.json.encode(reasoning), _PREFIX.encode())
        return _PREFIX + base64.urlsafe_b64encode(nonce + sealed).decode()

    def is_sealed(self, blob: str) -> bool:
        """Whether somebody like us sealed it, perhaps with a key that is not here."""
        return blob.startswith(_PREFIX)

    def open(self, blob: str) -> SealedReasoning | None:
        """None for a blob that is not ours, was changed, or was sealed with an unknown key."""
        if not blob.startswith(_PREFIX):
            return None
        try:
            data = base64.b64decode(blob[len(_PREFIX) :], altchars=b"-_", validate=True)
        except ValueError:
            return None
        for cipher in self._ciphers:
            try:
                return _decode(cipher.decrypt(data[:_NONCE], data[_NONCE:], _PREFIX.encode()))
            except (InvalidTag, ValueError, msgspec.DecodeError):
                continue
        return None
