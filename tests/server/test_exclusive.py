from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server import exclusive
from server.exclusive import only_server_of
from server.start import StartError
from tests.server.running import serving

HOLDER = """
import asyncio, subprocess, sys
from pathlib import Path
from server.exclusive import only_server_of

async def main():
    async with only_server_of(Path(sys.argv[1]), "data_dir", "the folder"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had a lock in these tests is gone when the next one wants it."""
    monkeypatch.setattr(exclusive, "WAIT_S", 0.1)


async def test_a_second_server_of_a_folder_does_not_start(tmp_path: Path) -> None:
    """It names the folder and its user, touches nothing there, and can start once the first has stopped."""
    async with serving(tmp_path) as first:
        job = (await first.post()).json()["id"]
        await first.begun()
        with pytest.raises(StartError, match=rf"data_dir: {tmp_path} is in use .*pid {os.getpid()}"):
            async with serving(tmp_path):
                pass
        assert (await first.client.get(f"/v1/videos/{job}")).json()["status"] == "in_progress"
    async with serving(tmp_path) as second:
        assert await second.begun() == job


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds `server.lock`, and prints the id of a child that it left running."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "server.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


async def test_a_killed_holder_leaves_the_lock_free_though_its_child_lives(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """The child of a killed server, as a worker that is still dying, does not hold what the server held."""
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    lock = tmp_path / "server.lock"
    try:
        with pytest.raises(StartError, match=rf"pid {holder.pid}"):
            async with only_server_of(lock, "data_dir", "the folder"):
                pass
        holder.kill()
        holder.wait()
        async with only_server_of(lock, "data_dir", "the folder"):
            os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def serve(**flags: str) -> subprocess.CompletedProcess[str]:
    """The command, which is to end by itself."""
    command = [sys.executable, "-m", "server.cli", "serve", "--port", "0"]
    given = [part for name, value in flags.items() for part in (f"--{name}", value)]
    return subprocess.run([*command, *given], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flag", ["data_dir", "artifacts.dir"])
def test_a_folder_that_cannot_be_used_ends_the_command(tmp_path: Path, flag: str) -> None:
    """One line on standard error that names the setting and the folder, and exit status 1: no traceback."""
    file = tmp_path / "file"
    file.touch()
    run = serve(**{"data_dir": str(tmp_path / "data"), flag: str(file / "below")})
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"reelserve: {flag}: cannot use {file / 'below'}: Not a directory\n"


def test_a_database_that_cannot_be_used_ends_the_command(tmp_path: Path) -> None:
    """The same, with where it should be and without the password."""
    run = serve(**{"data_dir": str(tmp_path), "store.url": "postgresql://someone:hunter2@127.0.0.1:1/jobs"})
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("reelserve: store.url: postgresql://someone:***@127.0.0.1:1/jobs: ")
    assert run.stderr.count("\n") == 1
