"""The `bascule` command."""

import gc

# Nothing that is loaded is garbage, and looking for it takes a tenth of the time.
gc.disable()

from bascule.cli.main import main  # noqa: E402

gc.enable()

__all__ = ["main"]
