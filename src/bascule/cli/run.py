"""`scripts/run`: a gateway in a process of its own, one turn through it, then it goes on serving."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import cyclopts
from cyclopts import Parameter

from bascule import config
from bascule.cli.show import Client, ShowFailed, choose_model, say, show_turn
from bascule.config import Config, ConfigError
from bascule.upstreams.client import UpstreamFailure
from bascule.upstreams.http1 import Http1Client

T = TypeVar("T")

_START_SECONDS: Final = 60.0
_DRAIN_SECONDS: Final = 5.0
_KEY_VARIABLE: Final = "OPENAI_API_KEY"


class _Interrupted(Exception):
    """A signal came."""


async def run(once: bool, upstream: str | None, model: str | None) -> int:
    """The exit status."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        loaded = config.load(config.find_file())
        async with _gateway(loaded, upstream, stop) as (url, process):
            hints = _show(url, loaded, model)
            if once:
                await _unless(stop, process, hints)
                return 0
            say(await _unless(stop, process, hints))
            await _unless(stop, process, asyncio.Event().wait())
    except _Interrupted:
        say()
        return 130 if once else 0
    except (ShowFailed, UpstreamFailure, ConfigError) as e:
        sys.stdout.flush()
        sys.stderr.write(f"\nrun: {e}\n")
    return 1


async def _show(url: str, loaded: Config, model: str | None) -> str:
    """Makes the turn; gives what to try next."""
    http = Http1Client()
    keys = loaded.server.api_keys
    try:
        client = Client(http, url, keys[0].reveal() if keys else None)
        name = model or await choose_model(client)
        say(f"The gateway listens on {url}; the model is {name}.\n")
        response_id = await show_turn(client, name)
    finally:
        await http.aclose()
    return _hints(url, name, response_id, with_key=bool(keys))


def _hints(url: str, model: str, response_id: str, *, with_key: bool) -> str:
    """Lines to copy, for a shell in this folder."""
    key = f"${_KEY_VARIABLE}" if with_key else "none"
    auth = f' -H "Authorization: Bearer {key}"' if with_key else ""
    note = f" with {_KEY_VARIABLE} set to one of server.api_keys" if with_key else ""
    python_key = f'os.environ["{_KEY_VARIABLE}"]' if with_key else '"none"'
    imports = "import os\nfrom openai import OpenAI" if with_key else "from openai import OpenAI"
    return f"""
It goes on serving until Ctrl-C. Try it from another terminal, in this folder{note}:

curl -sN {url}/v1/responses{auth} -H 'Content-Type: application/json' -d '{{"model": "{model}", "input": "Hello", "stream": true}}'

curl -s {url}/v1/responses{auth} -H 'Content-Type: application/json' -d '{{"model": "{model}", "input": "What did I ask first?", "previous_response_id": "{response_id}"}}'

.venv/bin/python - <<'END'
{imports}
client = OpenAI(base_url="{url}/v1", api_key={python_key})
print(client.responses.create(model="{model}", input="Hello").output_text)
END
"""


async def _unless(
    stop: asyncio.Event, process: asyncio.subprocess.Process, work: Coroutine[Any, Any, T]
) -> T:
    """Do the work and give its result. Raises _Interrupted at a signal, ShowFailed when the gateway ends."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait([task, stopped, ended], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return await task
        if stopped.done():
            raise _Interrupted
        raise ShowFailed(f"the gateway ended with exit status {process.returncode}")
    finally:
        for future in (task, stopped, ended):
            future.cancel()
        await asyncio.gather(task, stopped, ended, return_exceptions=True)


@asynccontextmanager
async def _gateway(
    loaded: Config, upstream: str | None, stop: asyncio.Event
) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    """A gateway process: its URL. It has ended when this is left."""
    state = Path.cwd() / ".run" / "state.db"
    command = [sys.executable, "-m", "bascule.cli", "serve", "--host", "127.0.0.1"]
    command += ["--port", str(_free(loaded.server.port)), "--state", f"sqlite:///{state}"]
    if upstream is not None:
        command += ["--upstream", upstream]
    environment = {**os.environ, "BASCULE__SERVER__DRAIN_SECONDS": str(_DRAIN_SECONDS)}
    # In a session of its own: Ctrl-C reaches the gateway through this process, once.
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, start_new_session=True, env=environment
    )
    try:
        yield await _listening(process, stop), process
    finally:
        await _end(process)


async def _listening(process: asyncio.subprocess.Process, stop: asyncio.Event) -> str:
    assert process.stdout is not None  # noqa: S101 -- it is a pipe
    first = asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
    try:
        line = await _unless(stop, process, first)
    except TimeoutError:
        raise ShowFailed("the gateway did not start in time") from None
    _, found, url = line.decode().strip().partition("listening on ")
    if not found:
        raise ShowFailed("the gateway did not start")
    return url


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(_DRAIN_SECONDS + 5):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()


def _free(port: int) -> int:
    """The port, or 0 where somebody else listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def main(
    *,
    once: Annotated[bool, Parameter(negative="")] = False,
    upstream: str | None = None,
    model: str | None = None,
) -> None:
    """Start the gateway, make one turn with a tool through it, and keep serving.

    Parameters
    ----------
    once
        End after the turn.
    upstream
        A model server's base URL, in place of the configured ones.
    model
        The model to ask; the first that the server lists by default.
    """
    sys.exit(asyncio.run(run(once, upstream, model)))


if __name__ == "__main__":
    cyclopts.run(main)
