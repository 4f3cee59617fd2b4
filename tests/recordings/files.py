"""The recorded exchanges: see tests/data/golden/README.md and LICENCES.md."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

GOLDEN = Path(__file__).parents[1] / "data" / "golden"

Json = dict[str, Any]


class Recording(msgspec.Struct):
    """One exchange. A stream's events keep their bytes."""

    family: str
    provider: str
    origin: str
    status: int | None = None
    request: Any = None
    response: msgspec.Raw = msgspec.Raw()
    events: list[msgspec.Raw] | None = None
    done_marker: bool = False
    comments: dict[str, int] = {}
    name: str = ""

    @property
    def streamed(self) -> bool:
        return self.events is not None

    @property
    def decoded_events(self) -> list[Json]:
        return [msgspec.json.decode(event) for event in self.events or ()]

    @property
    def body(self) -> Json:
        return msgspec.json.decode(self.response)

    def __str__(self) -> str:
        return self.name


@cache
def recordings(kind: str) -> tuple[Recording, ...]:
    """All of `chat` or `responses`, in the order of their names."""
    found: list[Recording] = []
    for path in sorted((GOLDEN / kind).glob("*.json")):
        recording = msgspec.json.decode(path.read_bytes(), type=Recording)
        recording.name = path.stem
        found.append(recording)
    return tuple(found)


@cache
def shapes() -> Json:
    """The keys that each kind of object had in the recordings of OpenAI and Azure."""
    return msgspec.json.decode((GOLDEN / "shapes.json").read_bytes())
