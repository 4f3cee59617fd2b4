"""Bascule: an agentic gateway between agent clients and model servers."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bascule.plugin import ToolError, tool

__version__: str
__all__ = ["ToolError", "__version__", "tool"]


def __getattr__(name: str) -> object:
    """What tools are made of is imported when somebody makes one; the version, when somebody asks."""
    if name == "__version__":
        version: str = import_module("importlib.metadata").version("bascule")
        globals()[name] = version
        return version
    if name in ("ToolError", "tool"):
        return getattr(import_module("bascule.plugin"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
