"""Finds the tools of others: installed plugins, and modules that the configuration names."""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, cast

from bascule.config import ConfigError, is_file_of_tools
from bascule.plugin.decorator import tool_of
from bascule.plugin.gateway_tool import GatewayTool

GROUP: Final = "bascule.tools"
T = TypeVar("T")
ToolClass = type[GatewayTool[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A tool type, and where it comes from, in words for an operator."""

    tool: ToolClass
    origin: str


def load_plugins(modules: Sequence[str] = ()) -> list[Plugin]:
    """The tools of installed plugins, then those of `tools.modules`. Raises ConfigError that names
    the plugin or the module which cannot be had, or two that bring one type."""
    found: dict[str, Plugin] = {}
    for plugin in [*map(_installed, _entry_points()), *_of_modules(modules)]:
        other = found.setdefault(plugin.tool.type, plugin)
        if other.tool is not plugin.tool:
            raise ConfigError(
                f"{plugin.origin}: the tool type '{plugin.tool.type}' is also brought by {other.origin}"
            )
    return list(found.values())


@functools.cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """What is installed does not change while a process runs, and looking takes 30 ms."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))


def _installed(entry: EntryPoint) -> Plugin:
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    origin = f"plugin '{entry.name}'{package}"
    thing: Any = _imported(origin, entry.load)
    tool = tool_of(thing)
    if tool is None and inspect.isclass(thing) and issubclass(thing, GatewayTool):
        tool = cast("ToolClass", thing)
    if tool is None:
        raise ConfigError(
            f"{origin}: {entry.value} is neither a class of GatewayTool nor a function with @tool"
        )
    if inspect.isabstract(tool) or not hasattr(tool, "type"):
        raise ConfigError(f"{origin}: {entry.value} is not whole: it needs a type, and run")
    return Plugin(tool, origin)


def _of_modules(modules: Sequence[str]) -> list[Plugin]:
    plugins: list[Plugin] = []
    for i, name in enumerate(modules):
        origin = f"tools.modules[{i}]: '{name}'"
        module = _imported(origin, functools.partial(_module, name))
        tools = [tool for thing in vars(module).values() if (tool := tool_of(thing)) is not None]
        if not tools:
            raise ConfigError(f"{origin} has no function with @tool")
        plugins += [Plugin(tool, origin) for tool in tools]
    return plugins


def _module(name: str) -> ModuleType:
    if not is_file_of_tools(name):
        return importlib.import_module(name)
    path = Path(name).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    # Under a name of its own, since what is defined in it may look its module up.
    own = f"bascule_tools_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a file of Python")
    module = sys.modules[own] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


def _imported(origin: str, load: Callable[[], T]) -> T:
    """Code of others: whatever it does while it is imported is told in one line."""
    try:
        return load()
    except (Exception, SystemExit) as e:
        raise ConfigError(f"{origin} cannot be imported: {type(e).__name__}: {_told(e)}") from e


def _told(error: BaseException) -> str:
    """The message, and the line of the code which is not ours."""
    frames = traceback.extract_tb(error.__traceback__)
    library = ("importlib", "<frozen", str(Path(__file__).parent))
    own = [frame for frame in frames if not any(part in frame.filename for part in library)]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{' '.join(str(error).split())}{where}"
