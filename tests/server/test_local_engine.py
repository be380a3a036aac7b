"""Worker processes, started and lost: the engine alone, on a tiny model or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from encoding.base import OutputSpec
from encoding.probe import available_codecs
from server.engine.base import EngineTask, Failed, Finished, JobEvent
from server.engine.local import LocalEngine
from server.engine.worker_process import worker_environment
from server.sections import EngineSettings
from server.settings import default_config, load
from tests.server.scripted import resolved

MODELS = load(default_config()).model_configs[:1]
QUICK = EngineSettings(restart_delay_s=0, max_start_failures=2)


@asynccontextmanager
async def started(engine: LocalEngine) -> AsyncIterator[LocalEngine]:
    await engine.start()
    try:
        await engine.wait_ready()
        yield engine
    finally:
        await engine.stop()


def task_in(folder: Path, job_id: str = "job") -> EngineTask:
    params = replace(resolved().params, model=MODELS[0].id, width=64, height=32, num_frames=5)
    spec = OutputSpec(folder / f"{job_id}.mp4", "mp4", 64, 32, 5, resolved().fps)
    return EngineTask(job_id, params, (spec,))


async def events_of(engine: LocalEngine, task: EngineTask) -> list[JobEvent]:
    async with aclosing(engine.run(task)) as events:
        return [event async for event in events]


async def test_a_task_runs_on_a_worker(tmp_path: Path) -> None:
    """It reports what it can do once, and ends with the finished file."""
    async with started(LocalEngine(QUICK, MODELS)) as engine:
        assert engine.capabilities is not None
        assert [info.id for info in engine.capabilities.models] == [MODELS[0].id]
        assert engine.failure is None
        last = (await events_of(engine, task_in(tmp_path)))[-1]
        assert isinstance(last, Finished)
        assert last.artifacts[0].path.exists()
    assert not engine.ready


async def test_a_model_that_cannot_be_loaded_is_not_tried_again(tmp_path: Path) -> None:
    """The reason is the loader's, with the model and the path."""
    broken = (replace(MODELS[0], path=str(tmp_path / "nothing")),)
    async with started(LocalEngine(QUICK, broken)) as engine:
        assert not engine.ready
        assert engine.failure is not None
        assert MODELS[0].id in engine.failure
        assert "nothing" in engine.failure


async def test_an_encoder_that_does_not_work_ends_the_start() -> None:
    """The setting, its value, FFmpeg's words and what works instead; it is not tried again."""
    if "h264_nvenc" in available_codecs("mp4"):
        pytest.skip("this machine's card has the encoder")
    async with started(LocalEngine(EngineSettings(restart_delay_s=60), MODELS, "h264_nvenc")) as engine:
        assert engine.failure is not None
        assert "encoding.mp4_codec: h264_nvenc does not work here: h264_nvenc refuses" in engine.failure
        assert "what works is libx264, libx265, libsvtav1" in engine.failure


@pytest.mark.usefixtures("light_workers")
async def test_one_broken_worker_does_not_take_the_others_along(tmp_path: Path) -> None:
    """A device that is not there stays down; the CPU beside it serves."""
    settings = EngineSettings(devices=("no-such-device", "cpu"), restart_delay_s=0, max_start_failures=1)
    async with started(LocalEngine(settings, MODELS)) as engine:
        assert engine.ready
        assert engine.failure is None
        assert isinstance((await events_of(engine, task_in(tmp_path)))[-1], Finished)
        assert engine.failure is None


async def test_a_task_is_cancelled_before_a_worker_takes_it(tmp_path: Path) -> None:
    """While all workers are still starting, a cancel ends it at once."""
    engine = LocalEngine(QUICK, MODELS)
    await engine.start()
    try:
        running = asyncio.create_task(events_of(engine, task_in(tmp_path)))
        await asyncio.sleep(0)  # it waits for a worker now
        await engine.cancel("job")
        (event,) = await running
        assert isinstance(event, Failed)
        assert event.code == "cancelled"
    finally:
        await engine.stop()


@pytest.mark.usefixtures("light_workers")
async def test_tasks_follow_each_other(tmp_path: Path) -> None:
    """One after the other, each with its own file."""
    async with started(LocalEngine(QUICK, MODELS)) as engine:
        for number in range(3):
            last = (await events_of(engine, task_in(tmp_path, f"job{number}")))[-1]
            assert isinstance(last, Finished)
            assert [artifact.path.stem for artifact in last.artifacts] == [f"job{number}"]


def test_a_worker_learns_no_setting_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """API keys, secrets of webhooks and the database's password may be in the server's environment."""
    monkeypatch.setenv("REELSERVE_AUTH__KEYS", '[{"name": "a", "key": "a-key-of-sixteen"}]')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    told = worker_environment()
    assert not any("a-key-of-sixteen" in value for value in told.values())
    assert told["CUDA_VISIBLE_DEVICES"] == "1"


class LostWorker:
    """A worker of `LocalEngine` that takes tasks and begins none."""

    idle = True

    def __init__(self) -> None:
        self.given: list[str] = []
        self.events: asyncio.Queue[Failed] = asyncio.Queue()

    def begin(self, task: EngineTask) -> asyncio.Queue[Failed]:
        self.given.append(task.job_id)
        return self.events

    def cancel(self, job_id: str) -> None: ...

    def forget(self, job_id: str) -> None: ...


async def test_a_cancel_as_the_worker_dies(tmp_path: Path) -> None:
    """Between the end of the worker that held the task and the next one's turn: it is given to none."""
    engine, worker = LocalEngine(EngineSettings(), ()), LostWorker()
    engine._workers = [worker]  # type: ignore[list-item]
    running = asyncio.create_task(events_of(engine, task_in(tmp_path)))
    while not worker.given:
        await asyncio.sleep(0)
    worker.events.put_nowait(Failed("job", "worker_crashed", "it ended", victim=True))
    await engine.cancel("job")
    (event,) = await asyncio.wait_for(running, 60)
    assert isinstance(event, Failed)
    assert event.code == "cancelled"
    assert worker.given == ["job"]
