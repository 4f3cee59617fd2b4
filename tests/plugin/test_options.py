"""`[tools.TYPE]`: what an operator says takes the place of what the tool says."""

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from bascule.config import ConfigError, Secret, convert, read_table
from bascule.gateway.serve import build, check, make_client
from bascule.plugin import Declaration, ExecutionContext, GatewayTool, ToolError, ToolOptions
from bascule.testing import ModelServer, Reply
from bascule.toolkit.handler import Handlers
from bascule.toolkit.options import make_handlers
from tests.plugin import some_tools
from tests.plugin.calling import MODULE, call, declared, with_tools

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(some_tools, "OVERLAP", some_tools.Overlap())
    some_tools.RELEASE.clear()
    yield
    some_tools.RELEASE.set()


async def _turn(type_: str, options: Json, calls: int = 1) -> list[Json]:
    """The items of calls that a model makes in one round."""
    made = [call(type_, {}, f"call_{i}") for i in range(calls)]
    async with (
        ModelServer([Reply(*made), Reply("Well.")]) as model,
        with_tools(model.url, tools={type_: options}) as api,
    ):
        answer = await api.create(tools=declared(type_))
    return answer.response["output"][:calls]


@pytest.mark.requirement("tools:options:typed")
async def test_a_timeout() -> None:
    (item,) = await _turn("acme:hang", {"timeout": 0.02})
    assert item["error"] == {"code": "timeout", "message": "The tool did not answer in 0.02 s."}


@pytest.mark.requirement("tools:options:typed")
@pytest.mark.parametrize(
    ("options", "most"), [({}, "1"), ({"parallel": True}, "2"), ({"parallel": False}, "1")]
)
async def test_whether_calls_overlap(options: Json, most: str) -> None:
    items = await _turn("acme:overlap", options, calls=2)
    assert max(item["output"] for item in items) == most


@pytest.mark.requirement("tools:options:unknown")
@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"acme:add": {"units": 1}}, "tools.acme:add.units: unknown key"),
        ({"acme:add": {"timeout": "5"}}, "tools.acme:add.timeout: Expected `float | null`"),
        ({"acme:nothing": {}}, "tools.acme:nothing: there is no tool type of this name; is its"),
        ({"nothing": {}}, "tools.nothing: there is no tool type of this name"),
        ({"function": {"timeout": 5}}, "tools.function.timeout: unknown key; tools of this type"),
        ({"local_shell": {"parallel": True}}, "tools.local_shell.parallel: unknown key"),
    ],
)
def test_a_wrong_section_is_named(sections: Json, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(convert({"tools": {"modules": [MODULE], **sections}}, {}), make_client())
    assert str(caught.value).startswith(told)


@pytest.mark.requirement("tools:options:unknown")
def test_an_empty_section_of_a_type_without_options_says_nothing() -> None:
    check(convert({"tools": {"function": {}}}, {}), make_client())


class Nothing(msgspec.Struct):
    pass


class Options(ToolOptions, frozen=True):
    key: Secret
    place: "Place | None" = None


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    city: str


CLOSED: list[str] = []


class Keyed(GatewayTool[Nothing, Options, Declaration]):
    """Tell the length of the key."""

    type = "acme:keyed"

    async def run(
        self, arguments: Nothing, declared: Declaration, context: ExecutionContext
    ) -> int:
        return len(self.options.key.reveal())

    async def aclose(self) -> None:
        CLOSED.append(self.type)
        raise OSError("no")


class Other(Keyed):
    """The same."""

    type = "acme:other"

    def __init__(self, options: Options) -> None:
        raise ConfigError("tools.acme:other.key: it is not known there")


def _made(**section: Any) -> Keyed:
    (made,) = make_handlers([Keyed], {"acme:keyed": section})
    assert isinstance(made, Keyed)
    return made


@pytest.mark.requirement("tools:options:typed")
def test_a_secret_is_read_as_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "sk-acme")
    assert _made(key="env:ACME_KEY").options.key.reveal() == "sk-acme"
    with pytest.raises(ConfigError, match=r"^tools\.acme:keyed\.key: the variable NO_KEY is not"):
        _made(key="env:NO_KEY")
    assert read_table(Options, {"key": "env:K"}, "x", {"K": "y"}).key == Secret("y")


@pytest.mark.requirement("tools:options:unknown")
@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({}, "tools.acme:keyed: Object missing required field `key`"),
        ({"key": "k", "place": {"citty": "x"}}, "tools.acme:keyed.place.citty: unknown key"),
        ({"key": "k", "place": {"city": 1}}, "tools.acme:keyed.place.city: Expected `str`"),
    ],
)
def test_the_place_inside_a_section_is_named(section: Json, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _made(**section)
    assert str(caught.value).startswith(told)


@pytest.mark.requirement("tools:options:unknown")
def test_a_required_option_is_missed_without_a_section_too() -> None:
    with pytest.raises(ConfigError, match=r"^tools\.acme:keyed: Object missing required field"):
        make_handlers([Keyed], {})


def test_a_tool_may_refuse_its_options_in_its_own_words() -> None:
    with pytest.raises(ConfigError, match=r"^tools\.acme:other\.key: it is not known there$"):
        make_handlers([Other], {"acme:other": {"key": "k"}})


@pytest.mark.requirement("tools:options:unknown")
def test_a_type_of_two_names_has_one_section() -> None:
    class Two(Keyed):
        """Two names."""

    Two.types = frozenset({"acme:keyed", "acme:keyed_old"})
    with pytest.raises(ConfigError, match=r"^tools\.acme:keyed_old: the options of this tool are"):
        make_handlers([Two], {"acme:keyed": {"key": "k"}, "acme:keyed_old": {}})


async def test_tools_are_closed_with_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    CLOSED.clear()
    await Handlers([_made(key="k")]).aclose()
    assert CLOSED == ["acme:keyed"]
    closed: list[str] = []

    async def aclose(self: object) -> None:
        closed.append("all")

    monkeypatch.setattr(Handlers, "aclose", aclose)
    gateway = await build(convert({"state": {"url": "sqlite://"}}, {}), make_client())
    await gateway._close()
    assert closed == ["all"]


def test_an_error_for_the_model_has_a_message_and_a_code() -> None:
    assert (ToolError("No.").message, ToolError("No.").code) == ("No.", "tool_error")
    assert str(ToolError("No.", "x")) == "No."
