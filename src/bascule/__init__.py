"""Bascule: an agentic gateway between agent clients and model servers."""

from importlib.metadata import version

__version__ = version("bascule")
