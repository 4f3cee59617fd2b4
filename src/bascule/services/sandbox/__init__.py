"""Where commands of a model run: behind a port, since every system keeps them apart in its own way."""

from bascule.services.sandbox.bubblewrap import Bubblewrap
from bascule.services.sandbox.open import Open
from bascule.services.sandbox.port import Boundary, Command, Mode, Prepared, Sandbox, SandboxError

__all__ = [
    "Boundary",
    "Bubblewrap",
    "Command",
    "Mode",
    "Open",
    "Prepared",
    "Sandbox",
    "SandboxError",
]
