"""`bascule mock`: the scripted server, or the demo model, as a process of its own."""

import asyncio
import sys
from pathlib import Path

from bascule.testing.demo import demo_server
from bascule.testing.script_file import load_script


async def serve_mock(
    script: str | Path | None = None, host: str = "127.0.0.1", port: int = 0
) -> None:
    """Serve the script file, or the demo model without one, until cancelled.

    The first line on stdout is `listening on http://HOST:PORT`. Raises `ScriptError` before anything
    listens if the file is wrong, `OSError` if the port is taken.
    """
    server = demo_server(host, port) if script is None else load_script(script).server(host, port)
    async with server:
        sys.stdout.write(f"listening on {server.origin}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
