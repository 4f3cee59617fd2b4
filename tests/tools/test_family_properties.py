"""Whatever tools are called, and whatever namespaces they are in: declare, call, restore, history, next turn."""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.testing import Call, ModelServer, Reply, Request
from tests.serving import serving

Json = dict[str, Any]

NAMES = st.sampled_from(
    [
        *("a", "b", "js", "a__b", "b__c", "x__", "__", "_", "functions", "ns", "find"),
        *("has.dot", "a.b", "with space", "größe", "道具", "a" * 64, "a" * 70, "A", "tool_search"),
    ]
) | st.text(min_size=1, max_size=80).filter(lambda text: "\x00" not in text and text.isprintable())
SPACES = st.none() | NAMES
LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Named(NamedTuple):
    namespace: str | None
    name: str
    kind: str

    @property
    def identity(self) -> tuple[str | None, str, str]:
        namespace = None if self.namespace == "functions" else self.namespace
        return namespace, self.name, self.kind

    @property
    def mark(self) -> str:
        """What tells it apart for the model, in its description."""
        return repr(self.identity)

    def declaration(self) -> Json:
        return {"type": self.kind, "name": self.name, "description": self.mark}


NAMED = st.builds(Named, SPACES, NAMES, st.sampled_from(["function", "custom"]))


@st.composite
def turns(draw: st.DrawFn) -> list[list[Named]]:
    """Tools of three turns; none comes twice."""
    tools = draw(st.lists(NAMED, min_size=1, max_size=12, unique_by=lambda tool: tool.identity))
    cuts = sorted(draw(st.tuples(st.integers(1, len(tools)), st.integers(1, len(tools)))))
    return [tools[: cuts[0]], tools[cuts[0] : cuts[1]], tools[cuts[1] :]]


def declared(tools: list[Named]) -> list[Json]:
    groups: dict[str, list[Json]] = {}
    found: list[Json] = []
    for tool in tools:
        if tool.namespace is None:
            found.append(tool.declaration())
        else:
            groups.setdefault(tool.namespace, []).append(tool.declaration())
    return [
        *found,
        *(
            {"type": "namespace", "name": name, "description": "", "tools": members}
            for name, members in groups.items()
        ),
    ]


class Model:
    """Calls every tool that a turn is about, and keeps what it was told."""

    def __init__(self) -> None:
        self.wires: dict[str, str] = {}
        self.now: list[Named] = []
        self.told: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.told.append(request)
        for tool in request.tools:
            function = tool["function"]
            mark = function["description"].split("\n")[-1]
            assert self.wires.setdefault(mark, function["name"]) == function["name"]
        calls = [
            Call(
                self.wires[t.mark],
                {"input": "x"} if t.kind == "custom" else {},
                id=f"call_{n}_{len(self.told)}",
            )
            for n, t in enumerate(self.now)
        ]
        return Reply(*calls) if calls else Reply("Done.")


class Running:
    """One gateway for all examples, on a loop of its own."""

    def __init__(self, portal: BlockingPortal) -> None:
        self.portal = portal
        self.model = Model()
        self.api: Any = None

    def _answer(self, request: Request) -> Reply:
        return self.model(request)

    @asynccontextmanager
    async def up(self) -> AsyncGenerator[None]:
        async with (
            ModelServer(self._answer) as server,
            serving(server.url) as self.api,
        ):
            yield


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with start_blocking_portal() as portal:
        made = Running(portal)
        with portal.wrap_async_context_manager(made.up()):
            yield made


async def survives(running: Running, drawn: list[list[Named]], store: bool) -> None:
    model, api = Model(), running.api
    running.model = model
    history: list[Json] = [{"type": "message", "role": "user", "content": "Hi"}]
    fields: Json = {"tools": declared(drawn[0])}
    new, previous = list(history), None
    for number, tools in enumerate(drawn):
        model.now = tools
        if number and tools:
            new.append({"type": "additional_tools", "role": "developer", "tools": declared(tools)})
            history.append(new[-1])
        chain = {"previous_response_id": previous} if store and previous else {}
        answer = await api.create(input=new if store else history, store=store, **fields, **chain)
        assert answer.status == 200, answer.body
        previous = answer.response["id"]
        made = [i for i in answer.response["output"] if i["type"].endswith("_call")]
        restored = [
            Named(
                i.get("namespace"),
                i["name"],
                i["type"].split("_")[0],
            )
            for i in made
        ]
        assert [t.identity for t in restored] == [t.identity for t in tools]
        outputs = [
            {"type": f"{i['type']}_output", "call_id": i["call_id"], "output": "ok"} for i in made
        ]
        new = [*outputs, {"type": "message", "role": "user", "content": "Go on"}]
        history += [*answer.response["output"], *new]
    model.now = []
    chain = {"previous_response_id": previous} if store else {}
    answer = await api.create(input=new if store else history, store=store, **fields, **chain)
    assert answer.status == 200, answer.body
    names = list(model.wires.values())
    assert len(set(names)) == len(names)
    assert all(LEGAL.fullmatch(name) for name in names)
    called = [
        call["function"]["name"]
        for message in model.told[-1].messages
        for call in message.get("tool_calls") or ()
    ]
    assert called == [model.wires[tool.mark] for tools in drawn for tool in tools]
    for before, after in zip(model.told, model.told[1:], strict=False):
        assert after.tools[: len(before.tools)] == before.tools
        assert after.messages[: len(before.messages)] == before.messages


@pytest.mark.requirement("family:names:survive")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns(), st.booleans())
def test_names_survive(running: Running, drawn: list[list[Named]], store: bool) -> None:
    running.portal.call(survives, running, drawn, store)
