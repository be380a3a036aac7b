"""Every way in which a worker ends, by faults in real worker processes that serve a pipeline of no weight."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from encoding.base import OutputSpec
from server.engine.base import DeviceFree, EngineTask, Failed, Finished, JobEvent, Progress, Started
from server.engine.local import LocalEngine
from server.sections import EngineSettings
from server.settings import default_config, load
from tests.server.scripted import resolved

pytestmark = [pytest.mark.usefixtures("light_workers"), pytest.mark.timeout(900)]
"""Many workers are started, one after the other: on a busy machine that takes its time."""

MODELS = load(default_config()).model_configs[:1]
WAIT_S = 110
LONG_TAIL = "fault:tail=100"


class Job:
    """A job that runs on the engine, with what has been said of it."""

    def __init__(self, engine: LocalEngine, folder: Path, prompt: str, job_id: str = "job") -> None:
        params = replace(
            resolved().params, model=MODELS[0].id, prompt=prompt, width=64, height=32, num_frames=5
        )
        spec = OutputSpec(folder / f"{job_id}.mp4", "mp4", 64, 32, 5, resolved().fps)
        self.id = job_id
        self.events: list[JobEvent] = []
        self.ready = False
        """Whether the engine was when the last of them came: later on it may be again."""
        self._engine = engine
        self._more = asyncio.Event()
        self._following = asyncio.create_task(self._follow(EngineTask(job_id, params, (spec,))))

    async def said(self, kind: type[JobEvent]) -> None:
        """Return when there was an event of this kind."""
        async with asyncio.timeout(WAIT_S):
            while not any(isinstance(event, kind) for event in self.events):
                self._more.clear()
                await self._more.wait()

    async def end(self) -> JobEvent:
        """The last event."""
        async with asyncio.timeout(WAIT_S):
            await self._following
        return self.events[-1]

    async def failure(self) -> Failed:
        """The last event, which is a failure."""
        event = await self.end()
        assert isinstance(event, Failed)
        return event

    async def _follow(self, task: EngineTask) -> None:
        async with aclosing(self._engine.run(task)) as events:
            async for event in events:
                self.events.append(event)
                self.ready = self._engine.ready
                self._more.set()


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def workers() -> list[psutil.Process]:
    """The worker processes of this one."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # one of another kind that has just ended
            if "server.engine.worker" in child.cmdline():
                found.append(child)
    return found


@asynccontextmanager
async def started(**settings: object) -> AsyncIterator[LocalEngine]:
    values = {"restart_delay_s": 0} | settings
    engine = LocalEngine(EngineSettings(**values), MODELS)
    await engine.start()
    try:
        async with asyncio.timeout(WAIT_S):
            await engine.wait_ready()
        yield engine
    finally:
        await engine.stop()
        assert workers() == []


async def test_the_process_dies(tmp_path: Path) -> None:
    """Its job says how; it is not ready until the next one is, which works."""
    deaths = {
        "segfault": "SIGSEGV",
        "sigkill": "SIGKILL",
        "exit=7": "status 7",
        "system_exit": "status 1",
    }
    async with started() as engine:
        for fault, told in deaths.items():
            job = Job(engine, tmp_path, f"fault:{fault}@2")
            end = await job.failure()
            assert (end.code, end.victim) == ("worker_crashed", False)
            assert told in end.message
            assert not job.ready
        assert isinstance(await Job(engine, tmp_path, "a circle").end(), Finished)
        assert engine.ready


async def test_errors_that_the_process_survives(tmp_path: Path) -> None:
    """Each ends its job alone: the process stays, and the next job's file is as good as before."""
    codes = {"oom": "out_of_memory", "memory": "out_of_memory", "error": "internal_error"}
    async with started() as engine:
        (before,) = workers()
        for fault, code in codes.items():
            end = await Job(engine, tmp_path, f"fault:{fault}@decode:2").failure()
            assert end.code == code
            assert "/secret" not in end.message
            assert files_in(tmp_path) == []
        assert isinstance(await Job(engine, tmp_path, "a circle").end(), Finished)
        assert workers() == [before]


async def test_who_is_to_blame(tmp_path: Path) -> None:
    """The job that was on the device. One whose tail is being encoded is a victim if it is lost."""
    ends: list[str] = []
    async with started(cancel_timeout_s=0.5) as engine:
        engine.watch(ends.append)
        tail = Job(engine, tmp_path, "fault:tail=2", "tail")
        await tail.said(DeviceFree)
        sticky = Job(engine, tmp_path, "fault:sticky")
        end = await sticky.failure()
        assert (end.code, end.victim) == ("worker_crashed", False)
        assert "the device failed" in end.message
        assert not sticky.ready
        assert isinstance(await tail.end(), Finished)

        tail = Job(engine, tmp_path, LONG_TAIL, "tail")
        await tail.said(DeviceFree)
        assert not (await Job(engine, tmp_path, "fault:segfault").failure()).victim
        victim = await tail.failure()
        assert (victim.code, victim.victim) == ("worker_crashed", True)

        tail = Job(engine, tmp_path, LONG_TAIL, "tail")
        await tail.said(DeviceFree)
        hung = Job(engine, tmp_path, "fault:sleep=600")
        await hung.said(Progress)  # it is past the last look at whether it is cancelled
        await engine.cancel(hung.id)
        assert (await hung.failure()).code == "cancelled"
        victim = await tail.failure()
        assert (victim.code, victim.victim) == ("worker_crashed", True)
        assert ends[:2] == ["device_lost", "crashed"]
        await engine.wait_ready()
        assert ends[2:] == ["cancel_ignored"]


async def test_a_silent_process_is_killed(tmp_path: Path) -> None:
    """Stopped, or stuck in native code with the interpreter's lock; two workers, side by side."""
    # Longer than a busy machine keeps a healthy one from its turn.
    async with started(devices=("cpu", "cpu"), heartbeat_timeout_s=6) as engine:
        jobs = [Job(engine, tmp_path, f"fault:{fault}", fault) for fault in ("sigstop", "hang")]
        for job in jobs:
            end = await job.failure()
            assert (end.code, end.victim) == ("worker_crashed", False)
            assert "stopped answering" in end.message


async def test_a_job_that_was_handed_over_and_not_begun_goes_to_the_next_worker(tmp_path: Path) -> None:
    """Nobody is told: for the client it has been waiting all the time."""
    async with started() as engine:
        (worker,) = workers()
        worker.suspend()
        job = Job(engine, tmp_path, "a circle")
        async with asyncio.timeout(WAIT_S):
            while engine._has_idle():  # as soon as no worker is, the one was handed the job
                await asyncio.sleep(0.005)
        worker.kill()
        assert isinstance(await job.end(), Finished)
        assert isinstance(job.events[0], Started)


async def test_starts_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is tried again, and passes."""
    flag = tmp_path / "failing"
    flag.touch()
    monkeypatch.setenv("FAULT_ON_LOAD", "error")
    monkeypatch.setenv("FAULT_ON_LOAD_WHILE", str(flag))
    engine = LocalEngine(EngineSettings(restart_delay_s=0, max_start_failures=3), MODELS)
    ends: list[str] = []

    def end(reason: str) -> None:
        ends.append(reason)
        flag.unlink(missing_ok=True)

    engine.watch(end)
    await engine.start()
    try:
        await engine.wait_ready()
        assert (engine.failure, ends) == (None, ["start_failed"])
    finally:
        await engine.stop()


@pytest.mark.parametrize(
    ("fault", "settings", "told"),
    [
        ("sleep=600", {"start_timeout_s": 1, "max_start_failures": 2}, "was not ready within 1 s"),
        ("sigstop", {"heartbeat_timeout_s": 3, "max_start_failures": 1}, "stopped answering"),
        ("exit=7", {"max_start_failures": 1}, "ended with status 7"),
    ],
)
async def test_starts_that_come_to_nothing(
    monkeypatch: pytest.MonkeyPatch, fault: str, settings: dict[str, object], told: str
) -> None:
    """Too slow, stopped while it loads, dead: after so many in a row no more are tried, and it says why."""
    monkeypatch.setenv("FAULT_ON_LOAD", fault)
    async with started(**settings) as engine:
        assert engine.failure is not None
        assert told in engine.failure
        assert not engine.ready
