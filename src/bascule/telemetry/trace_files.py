"""Each round's request and answer as files, for a look at what really went over the wire.

The files hold content: prompts and what the model said. Keys are masked. Writing happens on a thread
of its own, and what goes wrong there is a log line and nothing else.
"""

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import structlog

from bascule.telemetry.logs import describe
from bascule.telemetry.redact import Headers, Redactor, keys_in

_log = structlog.stdlib.get_logger("bascule.trace")

MAX_BODY: Final = 32 * 1024 * 1024
"""Bytes of an answer that are kept; longer ones are cut, and say so."""
_MAX_WAITING: Final = 256
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_MAX_NAME: Final = 80


class TraceFiles:
    """Writes below one folder, which is made when it is first needed."""

    def __init__(self, folder: Path, secrets: Iterable[str] = ()) -> None:
        self._folder = folder
        self._secrets = tuple(secrets)
        self._thread = ThreadPoolExecutor(1, "bascule-trace")
        self._waiting = 0
        self._failing = False

    def round(
        self, response_id: str, number: int, url: str, headers: Headers, body: bytes
    ) -> "RoundFile":
        """Write the request of a round; what is given back takes the answer."""
        name = "".join(c if c in _SAFE else "_" for c in response_id)[:_MAX_NAME] or "turn"
        redactor = Redactor([*self._secrets, *keys_in(headers)])
        file = RoundFile(self, f"{name}-{number:03d}", redactor)
        request = {"url": redactor.text(url), "headers": redactor.headers(headers)}
        self.write(f"{file.name}-request.json", redactor, request, body)
        return file

    def write(self, name: str, redactor: Redactor, fields: dict[str, Any], body: bytes) -> None:
        """Queue a file: the fields, and the body as JSON if it is, else as text."""
        if self._waiting >= _MAX_WAITING:
            _log.warning("a trace file was left out: the disk does not keep up", file=name)
            return
        self._waiting += 1
        try:
            self._thread.submit(self._write, name, redactor, fields, body)
        except RuntimeError:
            self._waiting -= 1
            _log.warning("a trace file was left out: the gateway is closing", file=name)

    def close(self) -> None:
        """Wait until all is written."""
        self._thread.shutdown(wait=True)

    def _write(self, name: str, redactor: Redactor, fields: dict[str, Any], body: bytes) -> None:
        try:
            text = redactor.text(body.decode(errors="replace"))
            shown = {**fields, "body": _as_json(text)}
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w") as out:
                json.dump(shown, out, ensure_ascii=False, indent=1)
            self._failing = False
        except Exception as e:  # noqa: BLE001 -- the turn does not depend on its trace
            if not self._failing:
                _log.warning("trace files cannot be written", file=name, error=describe(e))
            self._failing = True
        finally:
            self._waiting -= 1


class RoundFile:
    """Collects one answer."""

    def __init__(self, files: TraceFiles, name: str, redactor: Redactor) -> None:
        self.name = name
        self._files = files
        self._redactor = redactor
        self._status = 0
        self._headers: Headers = ()
        self._pieces: list[bytes] = []
        self._size = 0

    def head(self, status: int, headers: Headers) -> None:
        self._status, self._headers = status, headers

    def data(self, data: bytes) -> None:
        if self._size < MAX_BODY:
            self._pieces.append(data[: MAX_BODY - self._size])
        self._size += len(data)

    def end(self, fault: str | None) -> None:
        """Write what there is."""
        fields: dict[str, Any] = {
            "status": self._status or None,
            "headers": self._redactor.headers(self._headers),
            "fault": fault,
        }
        if self._size > MAX_BODY:
            fields["cut"] = f"the answer had {self._size} bytes"
        body, self._pieces = b"".join(self._pieces), []
        self._files.write(f"{self.name}-answer.json", self._redactor, fields, body)


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        return text
