"""The process that reads pages, started by `extractor`: tasks come by stdin, answers go to stdout.

It parses what strangers wrote, in C libraries among others, so it gets neither the gateway's environment nor
its files, and only so much memory and time.
"""

import os
import resource
import sys
from typing import BinaryIO, Final

from bascule.services.pages.messages import LENGTH, Extracted, encode, task_of

_MEMORY: Final = 2 * 1024**3
"""Bytes of address space."""


def main() -> None:
    """Answer tasks until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    _limit()
    from bascule.services.pages.extract import extract

    while (task := _read(sys.stdin.buffer)) is not None:
        try:
            found = extract(task_of(task))
        except MemoryError:
            found = Extracted(fault="The page is too large to be read.")
        except Exception as e:  # noqa: BLE001 -- whatever the libraries raise on hostile input
            found = Extracted(fault=f"The page cannot be read ({type(e).__name__}).")
        data = encode(found)
        answers.write(len(data).to_bytes(LENGTH, "big") + data)
        answers.flush()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _read(stream: BinaryIO) -> bytes | None:
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        return None
    data = stream.read(int.from_bytes(head, "big"))
    return data if len(data) == int.from_bytes(head, "big") else None


if __name__ == "__main__":
    main()
