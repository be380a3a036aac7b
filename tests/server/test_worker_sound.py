"""Sound from a pipeline to a file and a viewer, through a real worker process."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from encoding.base import AudioSpec, OutputSpec
from pipelines.base import SoundFormat
from server.engine import service
from server.engine.base import EngineTask, Finished, Fragment, JobEvent
from server.engine.local import LocalEngine
from server.sections import EngineSettings
from server.settings import default_config, load
from tests.encoding.judge import watch
from tests.encoding.listen import listen
from tests.server.scripted import resolved
from tests.serving import FAULTS

MODEL = load(default_config()).model_configs[0]
PICTURES = 9
RATE = 16_000


@pytest.fixture(autouse=True)
def sounding_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**FAULTS, "FAULT_LIGHT": "sound"}.items():
        monkeypatch.setenv(name, value)


def task_in(folder: Path) -> EngineTask:
    """Two files, the first one watched while it is made."""
    asked = resolved()
    params = replace(asked.params, model=MODEL.id, width=64, height=32, num_frames=PICTURES, num_outputs=2)
    specs = tuple(
        OutputSpec(folder / f"{index}.mp4", "mp4", 64, 32, PICTURES, asked.fps, audio=AudioSpec(RATE, 1))
        for index in range(2)
    )
    return EngineTask("job", params, specs, live=True)


async def run(task: EngineTask) -> list[JobEvent]:
    engine = LocalEngine(EngineSettings(), (MODEL,))
    await engine.start()
    try:
        async with asyncio.timeout(120):
            await engine.wait_ready()
            assert engine.capabilities is not None
            assert engine.capabilities.models[0].sound == SoundFormat(RATE, 1)
            assert engine.capabilities.sound_formats == ("mp4", "webm", "pt", "safetensors")
            async with aclosing(engine.run(task)) as events:
                return [event async for event in events]
    finally:
        await engine.stop()


async def test_what_a_pipeline_sounds_like_is_heard(tmp_path: Path) -> None:
    """The tone is in both files and in the stream, as long as the pictures."""
    events = await run(task_in(tmp_path))
    last = events[-1]
    assert isinstance(last, Finished), last
    assert [artifact.audio for artifact in last.artifacts] == [AudioSpec(RATE, 1)] * 2
    stream = b"".join(event.data for event in events if isinstance(event, Fragment))
    made: list[Path | bytes] = [*(artifact.path for artifact in last.artifacts), stream]
    for source in made:
        video, heard = watch(source), listen(source)
        assert len(video.times) == PICTURES
        assert abs(heard.samples.shape[1] / RATE - PICTURES / float(video.rate)) < 0.07
        spectrum = np.abs(np.fft.rfft(heard.samples[0, : RATE // 4]))
        assert np.argmax(spectrum) == 110  # quarters of a hertz


def test_a_model_whose_sound_cannot_be_written_ends_the_start() -> None:
    """Before any request has cost it time; silent models have no use for the encoder."""

    def loading(sound: SoundFormat | None) -> dict[str, Any]:
        return {"loud": SimpleNamespace(info=SimpleNamespace(sound=sound))}

    service._check_sounds(loading(SoundFormat(RATE, 1)))
    service._check_sounds(loading(None))
    with pytest.raises(RuntimeError, match=r"model loud: its sound cannot be written here: .* 6 channels"):
        service._check_sounds(loading(SoundFormat(RATE, 6)))
