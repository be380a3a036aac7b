"""What the log and the metrics are told of a job: one event for each of its moves."""

from __future__ import annotations

import logging
import time
from typing import Any

from server.jobs import Job
from server.metrics import Metrics

logger = logging.getLogger("reelserve.jobs")

EXPECTED = frozenset({"cancelled", "timeout", "invalid_reference", "server_restarted"})
"""Codes of failures that are nobody's to look into."""


class Journal:
    """Called after the database has taken what is told."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def queued(self, job: Job) -> None:
        """A new job waits."""
        self._metrics.created.labels(_model(job)).inc()
        logger.info("job queued", extra=_about(job))

    def started(self, job: Job, idle_s: float | None) -> None:
        """A worker has begun the job, `idle_s` after its device was free."""
        assert job.started_us is not None
        wait_s = max(job.started_us - job.created_us, 0) / 1e6  # the clock may have been set back
        if job.attempts == 1:  # the next ones have not waited since their creation
            self._metrics.wait.labels(_model(job)).observe(wait_s)
            if idle_s is not None:
                self._metrics.idle.observe(min(idle_s, wait_s))
        logger.info("job started", extra={**_about(job), "attempt": job.attempts, "seconds": wait_s})

    def streaming(self, job: Job) -> None:
        """The first piece of a live stream is there."""
        seconds = time.time() - job.created_us / 1e6
        self._metrics.first_piece.labels(_model(job)).observe(max(seconds, 0.0))

    def queued_again(self, job: Job) -> None:
        """A job that had begun waits again."""
        self._metrics.again.labels(_model(job)).inc()
        logger.info("job queued again", extra={**_about(job), "attempt": job.attempts})

    def completed(self, job: Job) -> None:
        """Its files are there."""
        model, seconds = _model(job), job.timings
        self._metrics.ended.labels(model, "completed").inc()
        self._metrics.generation.labels(model).observe(seconds["generation"])
        self._metrics.total.labels(model).observe(seconds["total"])
        for stage in ("denoise", "decode", "encode"):
            self._metrics.stage.labels(model, stage).observe(seconds[stage])
        rest = seconds["generation"] - seconds["denoise"] - seconds["decode"]
        self._metrics.stage.labels(model, "prepare").observe(max(rest, 0.0))
        if seconds["generation"] > 0:
            self._metrics.encode_share.labels(model).observe(seconds["encode"] / seconds["generation"])
        size = sum(file.size_bytes for file in job.files)
        self._metrics.stored.labels(model, job.resolved.format).inc(size)
        timings = {name: round(value, 4) for name, value in seconds.items()}
        logger.info("job completed", extra={**_about(job), "bytes": size, "timings": timings})

    def failed(self, job: Job) -> None:
        """It ended without a result, or was cancelled."""
        assert job.error is not None
        code = job.error.code
        self._metrics.ended.labels(_model(job), code).inc()
        told = "job cancelled" if code == "cancelled" else "job failed"
        level = logging.INFO if code in EXPECTED else logging.WARNING
        logger.log(level, told, extra={**_about(job), "code": code})

    def deleted(self, job_id: str) -> None:
        """Its record and its files are gone, as a client wished."""
        self._metrics.deleted.inc()
        logger.info("job deleted", extra={"job_id": job_id})


def _model(job: Job) -> str:
    return job.resolved.params.model


def _about(job: Job) -> dict[str, Any]:
    return {"job_id": job.id, "key": job.owner, "model": _model(job)}
