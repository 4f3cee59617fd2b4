"""A real PostgreSQL server for the tests: started here, with a new database for each test."""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy import make_url

VARIABLE = "BASCULE_TEST_POSTGRES"
PASSWORD = "s3cret-of-the-tests"
MISSING = (
    f"PostgreSQL is not installed, and these tests need it: install it (Debian: postgresql), or set "
    f"{VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE of a user who may create databases"
)
_LIMIT = 60.0


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; the newest, where Debian keeps several."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(folders, key=lambda path: float(path.parts[-3]))
    return newest[-1].parent if newest else None


class Server:
    """A server that lives in a folder of its own; `stop` and `start` keep its data."""

    def __init__(self) -> None:
        folder = programs()
        if folder is None:
            raise RuntimeError(MISSING)
        self._programs = folder
        self._folder = Path(tempfile.mkdtemp(prefix="bascule-pg-", dir="/tmp"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[str] | None = None
        # It refuses to be root's: Debian's package makes a user for it.
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self._folder, "postgres", "postgres")
        self._folder.chmod(0o755)
        self._initialise()
        self.port = _free_port()

    def _initialise(self) -> None:
        file = self._folder / "password"
        file.write_text(PASSWORD)
        file.chmod(0o644)
        command: Sequence[str | Path] = [
            *(self._programs / "initdb", "-D", self._data, "-U", "postgres", "--no-sync"),
            *("-E", "UTF8", "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256"),
            f"--pwfile={file}",
        ]
        done = subprocess.run(
            command, cwd="/", capture_output=True, timeout=_LIMIT, check=False, **self._user
        )
        assert done.returncode == 0, done.stderr.decode()

    @property
    def url(self) -> str:
        """By way of TCP, with a password."""
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder}&port={self.port}"

    def start(self) -> None:
        # A test run that is killed leaves no server behind, where util-linux is there to see to it.
        guard = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        command: Sequence[str | Path] = [
            *guard,
            *(self._programs / "postgres", "-D", self._data, "-p", str(self.port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._folder}"),
            *("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200"),
        ]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd="/", stdout=log, stderr=log, text=True, **self._user
            )
        self._process = process
        deadline = time.monotonic() + _LIMIT
        while not self._answers():
            assert process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"

    def _answers(self) -> bool:
        command = [self._programs / "pg_isready", "-q", "-h", self._folder, "-p", str(self.port)]
        return subprocess.run(command, timeout=_LIMIT, check=False).returncode == 0

    def stop(self) -> None:
        """At once: what is connected is cut off, what was committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_LIMIT)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(url: str, *statements: str) -> list[list[tuple[Any, ...]]]:
    """The statements' rows, from a connection that is none of the store's."""

    async def connected() -> list[list[tuple[Any, ...]]]:
        connection = await asyncpg.connect(url)
        try:
            return [
                [tuple(row) for row in await connection.fetch(statement)]
                for statement in statements
            ]
        finally:
            await connection.close()

    # On a thread: the test may have a loop running.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, connected()).result(_LIMIT)


def database_url(server: str, database: str) -> str:
    """The same server, another database."""
    return make_url(server).set(database=database).render_as_string(hide_password=False)


def create_database(server: str, template: str = "template1") -> str:
    """A new database on the server; gives its URL."""
    name = f"bascule_{secrets.token_hex(8)}"
    run(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    return database_url(server, name)


def drop_database(server: str, url: str) -> None:
    """Though somebody may be connected still."""
    run(server, f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)")
