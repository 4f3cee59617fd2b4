"""Recorded scenarios of conversations and token counts: the same requests, in the same order, have the
same statuses, errors and shapes here."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bascule.testing import ModelServer
from tests.recordings import tally
from tests.recordings.files import GOLDEN
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FAMILIES = ("conversations", "input_tokens")
LEFT_OUT = {
    16: "OpenAI takes one stored item twice into a new conversation; here an item is there once",
    17: "the list after it",
}
"""Steps of the edge cases."""


def _scenarios() -> Iterator[Any]:
    found: dict[str, list[Json]] = {}
    for path in sorted((GOLDEN / "responses").glob("*.json")):
        step = msgspec.json.decode(path.read_bytes())
        if step.get("path") and step["family"] in FAMILIES:
            found.setdefault(step.get("scenario") or path.stem, []).append(step)
    for name, steps in found.items():
        yield pytest.param(sorted(steps, key=lambda s: s.get("step") or 1), id=name)


class Ids:
    """Recorded ids as ours."""

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}

    def learn(self, theirs: Any, ours: Any) -> None:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            if isinstance(theirs.get("id"), str) and isinstance(ours.get("id"), str):
                self._ours.setdefault(theirs["id"], ours["id"])
            for key in theirs.keys() & ours.keys():
                self.learn(theirs[key], ours[key])
        elif isinstance(theirs, list) and isinstance(ours, list):
            for their, our in zip(theirs, ours, strict=False):
                self.learn(their, our)

    def translated(self, text: str) -> str:
        for theirs, ours in self._ours.items():
            text = text.replace(theirs, ours)
        return text


def _shape(value: Any) -> Any:
    """What must agree: keys, types of items, order, has_more; not words, ids and times."""
    if isinstance(value, list):
        return [_shape(member) for member in value]
    if isinstance(value, dict):
        return {key: _shape(member) for key, member in value.items()}
    return type(value).__name__


@pytest.mark.requirement("conversations:recorded")
@pytest.mark.parametrize("steps", list(_scenarios()))
async def test_a_recorded_scenario(steps: list[Json]) -> None:
    ids = Ids()
    async with (
        ModelServer("SAPPHIRE", then="repeat") as model,
        serving(model.url) as api,
    ):
        for step in steps:
            if (
                step.get("scenario") == "conversations-edge-cases-openai"
                and step["step"] in LEFT_OUT
            ):
                tally.excluded("responses", step["family"], LEFT_OUT[step["step"]])
                continue
            if "tool" in (step.get("scenario") or "") and step["path"] == "/v1/responses":
                return  # its calls are those of another model
            body = b"" if step["method"] == "GET" else msgspec.json.encode(step["request"] or {})
            sent = ids.translated(body.decode()).encode()
            answer = await api.send(step["method"], ids.translated(step["path"]), sent)
            assert answer.status == step["status"], (step["path"], answer.body)
            recorded = step["response"]
            if step["path"] != "/v1/responses":
                if answer.status == 200:
                    assert _shape(answer.json) == _shape(recorded)
                else:
                    for key in ("code", "param", "type"):
                        assert answer.error[key] == recorded["error"][key]
            ids.learn(recorded, answer.json)
            tally.replayed("responses", step["family"], str(step.get("step")) + step["path"])
