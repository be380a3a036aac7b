from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from server.children import Ended
from server.forked import REFUSED, WRITE_FAILED, Order
from server.forking import ForkServer
from tests.server.forks import decoders, forks

MEMORY = 2**30
MAX_OUTPUT = 1_000_000


@dataclass(frozen=True, slots=True)
class Bench:
    """A fork server, and a folder for what its forks write."""

    server: ForkServer
    folder: Path

    async def do(
        self, how: bytes, target: str = "target", timeout_s: float = 120, seconds: int = 300
    ) -> Ended:
        order = Order(
            start=3, size=len(how), memory=MEMORY, seconds=seconds, max_output=MAX_OUTPUT, arguments={}
        )
        source = self.folder / f"source-{target}"
        source.write_bytes(b"..." + how + b"...")
        with source.open("rb") as read, (self.folder / target).open("wb") as write:
            return await self.server.run(order, read.fileno(), write.fileno(), timeout_s)

    def written(self) -> bytes:
        return (self.folder / "target").read_bytes()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    opened = Bench(ForkServer("tests.server.crashing_child", limit=2), tmp_path)
    yield opened
    await opened.server.close()
    assert decoders() == []


async def test_work_is_done(bench: Bench) -> None:
    """On its piece of the source, into the target."""
    assert await bench.do(b"copy") == Ended(0, b"")
    assert bench.written() == b"copied"


@pytest.mark.parametrize(
    ("how", "ended"),
    [
        (b"refuse", Ended(REFUSED, b"is not liked")),
        (b"raise", Ended(REFUSED, b"is damaged: RuntimeError")),
        (b"memory", Ended(REFUSED, b"takes too much memory to decode")),
        (b"fill", Ended(REFUSED, b"is too large when decoded")),
        (b"segfault", Ended(-signal.SIGSEGV, b"")),
        (b"abort", Ended(-signal.SIGABRT, b"")),
        (b"exit", Ended(7, b"")),
    ],
)
async def test_a_bad_end_is_told_and_costs_nothing(bench: Bench, how: bytes, ended: Ended) -> None:
    """Whatever a decoder does to its process, the next one works; no more is written than allowed."""
    assert await bench.do(how) == ended
    assert len(bench.written()) <= MAX_OUTPUT
    before = decoders()
    assert (await bench.do(b"copy")).status == 0
    assert decoders() == before


async def test_time_is_bounded_in_three_ways(bench: Bench) -> None:
    """By whoever waits; by the processor's time; and by a clock of its own, should nobody wait any more."""
    with pytest.raises(TimeoutError):
        await bench.do(b"sleep", timeout_s=0.2)
    assert forks() == []
    by_time = (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)  # the clock's, where the machine is busy
    assert (await bench.do(b"spin", seconds=1)).status in by_time
    assert (await bench.do(b"sleep", seconds=1)).status == -signal.SIGALRM


async def test_a_fork_has_limits(bench: Bench) -> None:
    """Address space, processor time, size of what is written, no core, few files."""
    await bench.do(b"limits", seconds=20)
    assert bench.written().decode() == repr([MEMORY, 20, MAX_OUTPUT, 0, 64])


async def test_a_full_disk_is_no_fault_of_the_client(bench: Bench) -> None:
    """The system's error number comes back."""
    (bench.folder / "full").symlink_to("/dev/full")
    assert await bench.do(b"copy", target="full") == Ended(WRITE_FAILED, b"28")


async def test_a_server_that_is_gone_is_started_again(bench: Bench) -> None:
    """Killed between two orders, or in the middle of one that is then done again."""
    assert (await bench.do(b"copy")).status == 0
    os.kill(decoders()[0].pid, signal.SIGKILL)
    assert (await bench.do(b"copy")).status == 0
    with pytest.raises(OSError, match="twice"):
        await bench.do(b"orphan")
    assert (await bench.do(b"copy")).status == 0


PROGRAM = """
import asyncio, sys
from pathlib import Path
from server.forking import ForkServer
from tests.server.test_forking import Bench

asyncio.run(Bench(ForkServer("tests.server.crashing_child", 1), Path(sys.argv[1])).do(b"sleep"))
"""


async def test_nothing_outlives_a_killed_process(tmp_path: Path) -> None:
    """`kill -9` of whoever ordered it ends the process that forks, and the fork."""
    owner = psutil.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)])
    async with asyncio.timeout(120):
        while len(family := owner.children(recursive=True)) < 2:
            await asyncio.sleep(0.01)
        owner.kill()
        owner.wait()
        assert psutil.wait_procs(family, timeout=60)[1] == []


async def test_no_more_than_the_limit_work_side_by_side(bench: Bench) -> None:
    """The others wait for their turn, and their time does not run meanwhile."""
    sleeping = [asyncio.create_task(bench.do(b"sleep", f"t{n}", timeout_s=0.5)) for n in range(4)]
    ends = await asyncio.gather(*sleeping, return_exceptions=True)
    assert [type(end) for end in ends] == [TimeoutError] * 4
    assert (await asyncio.gather(*(bench.do(b"copy", f"t{n}") for n in range(8)))) == [Ended(0, b"")] * 8


async def test_a_fork_has_nothing_but_its_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Source, target, errors and the way back; the environment says nothing of the server."""
    monkeypatch.setenv("REELSERVE_SECRET", "x")
    await bench.do(b"descriptors")
    assert len(bench.written().split(b",")) == 5  # and the listed folder itself
    await bench.do(b"environment")
    assert b"SECRET" not in bench.written()
