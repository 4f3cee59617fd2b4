"""`[tools.TYPE]`: what an operator may say of a tool type, and how handlers come by it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from bascule.config import Config, ConfigError, read_table

if TYPE_CHECKING:
    from bascule.toolkit.handler import ToolHandler

Section = Mapping[str, Any]
Timeout = Annotated[float, Meta(gt=0, le=86_400)]
"""Seconds."""


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every type has that the gateway runs. A type's own options are fields of a subclass."""

    timeout: Timeout | None = None
    """Seconds, from when a call runs; by default the tool's own."""
    parallel: bool | None = None
    """Whether calls of the same tool may overlap; by default as the tool says."""


NO_OPTIONS = ToolOptions()
DEFAULTS = Config()


def make_handlers(
    sources: "Sequence[ToolHandler[Any] | type[ToolHandler[Any]]]",
    sections: Mapping[str, Section],
    config: Config = DEFAULTS,
) -> "list[ToolHandler[Any]]":
    """Handlers; those given as classes are made with the options of their type.

    Raises ConfigError that names the place for a section of an unknown type, an unknown key and a
    value of a wrong type.
    """
    places: dict[int, str] = {}
    for name in sections:
        at = next((i for i, source in enumerate(sources) if name in source.types), None)
        if at is None:
            hint = "; is its plugin installed?" if ":" in name else ""
            raise ConfigError(f"tools.{name}: there is no tool type of this name{hint}")
        if at in places:
            raise ConfigError(
                f"tools.{name}: the options of this tool are in tools.{places[at]} already"
            )
        places[at] = name
    return [
        _made(source, places.get(i, ""), sections.get(places.get(i, ""), {}), config)
        for i, source in enumerate(sources)
    ]


def _made(
    source: "ToolHandler[Any] | type[ToolHandler[Any]]",
    name: str,
    section: Section,
    config: Config,
) -> "ToolHandler[Any]":
    if source.option_type is None:
        if section:
            raise ConfigError(
                f"tools.{name}.{next(iter(section))}: unknown key; "
                "tools of this type are not run here and have no options"
            )
        return source() if isinstance(source, type) else source
    if not isinstance(source, type):
        raise TypeError(f"{type(source).__name__} has options, so its class must be given")
    place = f"tools.{name or min(source.types)}"
    options = read_table(source.option_type, section, place)
    arguments = (options, config) if source.takes_config else (options,)
    try:
        return source(*arguments)  # pyright: ignore[reportCallIssue] -- as `option_type` says
    except ConfigError:
        raise
    except Exception as e:
        told = " ".join(str(e).split())
        raise ConfigError(f"{place}: the tool cannot be made: {type(e).__name__}: {told}") from e
