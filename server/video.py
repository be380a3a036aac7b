"""A job in the client's words."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from server.answers import Video, VideoError, VideoEvent
from server.dispatcher import Dispatcher
from server.jobs import Job, JobStatus
from server.live import LiveJob
from server.services import Services


async def look(video_id: str, owner: str, services: Services) -> tuple[Video, LiveJob | None]:
    """A job of this owner as it is now, and its live side if it is queued or running here.

    Raises:
        NotFound: the owner has none.
    """
    live = services.dispatcher.roster.live(video_id)
    if live is not None and live.stored.is_set() and live.job.owner == owner:
        job = live.job  # as the database has it: what is asked for most, by all who wait, costs no query
    else:
        job = await services.store.owned(video_id, owner)
    return to_video(job, live, services.dispatcher), live


def to_video(job: Job, live: LiveJob | None, dispatcher: Dispatcher) -> Video:
    """The job object, with how far it is if it is live."""
    params, resolved = job.resolved.params, job.resolved
    running = live is not None and job.status is JobStatus.IN_PROGRESS
    return Video(
        id=job.id,
        created_at=job.created_us // 1_000_000,
        completed_at=job.completed_us // 1_000_000
        if job.completed_us is not None and job.status is JobStatus.COMPLETED
        else None,
        expires_at=None if job.expires_us is None else job.expires_us // 1_000_000,
        status=job.status.value,
        progress=live.progress.percent if live is not None and running else job.progress,
        model=params.model,
        prompt=params.prompt,
        seconds=in_seconds(params.num_frames, resolved.fps),
        size=f"{params.width}x{params.height}",
        error=None if job.error is None else VideoError(code=job.error.code, message=job.error.message),
        remixed_from_video_id=job.remixed_from,
        num_frames=params.num_frames,
        fps=resolved.fps,
        seed=params.seed,
        num_inference_steps=params.num_inference_steps,
        guidance_scale=params.guidance_scale,
        guidance_scale_2=params.guidance_scale_2,
        boundary_ratio=params.boundary_ratio,
        output_format=resolved.format,
        stage=live.progress.stage if live is not None and running else None,
        queue_position=_position(job, live, dispatcher),
        timings={name: round(value * 1000, 3) for name, value in job.timings.items()} or None,
    )


def to_event(video: Video, live: LiveJob | None) -> VideoEvent:
    """What an event tells of a job: the job object's progress, and the step."""
    said = live.progress.last if live is not None and video.stage is not None else None
    return VideoEvent(
        id=video.id,
        status=video.status,
        progress=video.progress,
        stage=video.stage,
        step=None if said is None else said.step,
        steps=None if said is None else said.steps,
        queue_position=video.queue_position,
        error=video.error,
    )


def _position(job: Job, live: LiveJob | None, dispatcher: Dispatcher) -> int | None:
    if live is None or job.status is not JobStatus.QUEUED:
        return None
    place = dispatcher.roster.queue.position(job.id)
    return 0 if place is None else place  # it has been handed out, and begins at any moment


def in_seconds(num_frames: int, fps: Fraction) -> str:
    """A length as OpenAI writes it: "4", or with up to six decimals where it is no whole number."""
    return f"{float(num_frames / fps):.6f}".rstrip("0").rstrip(".")


def server_timing(timings: Mapping[str, float]) -> str:
    """The header `Server-Timing`, in milliseconds."""
    return ", ".join(f"{name};dur={seconds * 1000:.1f}" for name, seconds in timings.items())
