"""What `record` does."""

import signal
from pathlib import Path
from types import FrameType

import uvicorn

from bascule.cli.serve import local_client, say
from bascule.config import ConfigError
from bascule.testing.record import Recording, RecordingProxy
from bascule.upstreams.routing import base_url
from bascule.upstreams.wire import parse_target


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """It has been obeyed already."""


class _Server(uvicorn.Server):
    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            print(f"listening on http://{host}:{port}", flush=True)


async def run_record(upstream: str, out: Path, host: str, port: int) -> None:
    """Pass on and record until a signal comes. Raises ConfigError, OSError."""
    url = base_url(upstream)
    try:
        parse_target(url)
    except ValueError as e:
        raise ConfigError(f"--upstream: {e}") from None
    recording = Recording(out)
    client = local_client()
    proxy = RecordingProxy(url, client, recording, say)
    config = uvicorn.Config(
        proxy,  # type: ignore[arg-type]
        host=host,
        port=port,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=5,
    )
    # uvicorn raises the signal again when it has ended.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    try:
        await _Server(config).serve()
    except SystemExit:
        raise OSError(f"cannot listen on {host}:{port}") from None
    finally:
        await client.aclose()
