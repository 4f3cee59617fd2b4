"""The `bascule` command."""

from bascule.cli.main import main

__all__ = ["main"]
