"""A job as a worker sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from encoding.base import AudioSpec, OutputSpec
from server.artifacts import JobFolders
from server.engine.base import EngineTask
from server.jobs import Job
from server.params import Resolved


def output_of(resolved: Resolved, path: Path) -> OutputSpec:
    """One file of what was asked for."""
    params, sound = resolved.params, resolved.sound
    return OutputSpec(
        path=path,
        format=resolved.format,
        width=params.width,
        height=params.height,
        num_frames=params.num_frames,
        fps=resolved.fps,
        codec_options=resolved.codec_options,
        codec=resolved.codec,
        audio=None if sound is None else AudioSpec(sound.sample_rate, sound.channels),
    )


def task_of(job: Job, artifacts: JobFolders, max_pending_bytes: int) -> EngineTask:
    """The generation that a job asks for, with a file in its folder for each output."""
    resolved, params = job.resolved, job.resolved.params
    outputs = tuple(
        replace(
            output_of(resolved, artifacts.video(job.id, index, resolved.format)),
            max_pending_bytes=max_pending_bytes,
        )
        for index in range(params.num_outputs)
    )
    return EngineTask(job.id, params, outputs, live=resolved.stream)
