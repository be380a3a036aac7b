"""A job as a worker sees it."""

from __future__ import annotations

from encoding.base import OutputSpec
from server.artifacts import JobFolders
from server.engine.base import EngineTask
from server.jobs import Job


def task_of(job: Job, artifacts: JobFolders, max_pending_bytes: int) -> EngineTask:
    """The generation that a job asks for, with a file in its folder for each output."""
    resolved, params = job.resolved, job.resolved.params
    outputs = tuple(
        OutputSpec(
            path=artifacts.video(job.id, index, resolved.format),
            format=resolved.format,
            width=params.width,
            height=params.height,
            num_frames=params.num_frames,
            fps=resolved.fps,
            codec_options=resolved.codec_options,
            max_pending_bytes=max_pending_bytes,
            codec=resolved.codec,
        )
        for index in range(params.num_outputs)
    )
    return EngineTask(job.id, params, outputs, live=resolved.stream)
