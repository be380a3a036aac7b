"""A real PostgreSQL for tests: the one that `TEST_POSTGRES_URL` names, or a cluster of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam
from uuid import uuid4

import psycopg
from sqlalchemy import URL, make_url

START_S = 120
DURABLE_ENOUGH = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB")


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`: Debian does not put them on the path."""
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in versions), key=lambda path: float(path.parent.name), default=None)


def available() -> bool:
    """Whether there is one, or one can be started."""
    return "TEST_POSTGRES_URL" in os.environ or programs() is not None


class Postgres:
    """Somewhere to make databases. `admin` is the URL of a database whose user may do that."""

    def __init__(self, admin: URL) -> None:
        self._admin = admin

    @contextlib.contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """The URL of a database like `template`, by default an empty one; it is gone after the block."""
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self._admin.set(database=name).render_as_string(hide_password=False)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, *values: str | None) -> None:
        conninfo = self._admin.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(statement.encode(), values or None)

    def disconnect(self, database_url: str) -> None:
        """End all connections to a database, as a restart of PostgreSQL would."""
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        self.execute(query, make_url(database_url).database)


class Cluster(Postgres):
    """A PostgreSQL in a folder, reached by a socket there; it ends with this process."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        socket = URL.create("postgresql", "postgres", database="postgres", query={"host": str(folder)})
        super().__init__(socket)
        self._folder = folder
        self._bin = bin_folder
        self._process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            os.chown(folder, *_user())
        auth = ("--auth", "trust", "--username", "postgres")
        self._run("initdb", *auth, "--encoding", "UTF8", "--locale", "C", "--no-sync").wait()

    def start(self) -> None:
        """Start it, from the main thread: it ends with the thread that started it."""
        settings = (*DURABLE_ENOUGH, "listen_addresses=", f"unix_socket_directories={self._folder}")
        self._process = self._run("postgres", *(part for each in settings for part in ("-c", each)))
        end = time.monotonic() + START_S
        while True:
            try:
                return self.execute("SELECT 1")
            except psycopg.OperationalError:
                assert time.monotonic() < end, (self._folder / "log").read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """At once for its clients, and cleanly for its files."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(START_S)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        user, group = _user()
        become = ("--reuid", str(user), "--regid", str(group), "--init-groups") if os.getuid() == 0 else ()
        command = (str(self._bin / program), "-D", str(self._folder / "data"), *arguments)
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", *become, "--pdeathsig", "INT", *command],
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )


def _user() -> tuple[int, int]:
    """Someone who is not root, and their group, by number."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = getpwnam(name)
            return user.pw_uid, user.pw_gid
    raise AssertionError("there is no unprivileged user to run PostgreSQL as")
