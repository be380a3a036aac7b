"""Thumbnails and spritesheets, made when they are first asked for and kept beside their video."""

from __future__ import annotations

import asyncio
import logging
import secrets
from math import ceil
from pathlib import Path

import encoding
from encoding.previews import Preview
from server.artifacts import JobFolders
from server.children import EXIT_UNWRITTEN, Children, unwritten
from server.echo import clean
from server.errors import FileMissing, PreviewFailed
from server.jobs import Job

CHILDREN = 2
"""Previews drawn side by side; each decodes up to a whole video on one core."""

_ROOT = Path(encoding.__file__).parent.parent

logger = logging.getLogger("reelserve.previews")


class Previews:
    """Makes each preview once, however many ask for it. One instance a server, as it bounds the children."""

    def __init__(self, artifacts: JobFolders, timeout_s: float) -> None:
        self._artifacts = artifacts
        self._timeout_s = timeout_s
        self._children = Children(CHILDREN)
        self._making: dict[Path, asyncio.Task[None]] = {}

    async def path(self, job: Job, index: int, preview: Preview) -> Path:
        """The file of a preview of the completed job's output number `index`, which exists then.

        Raises:
            FileMissing: the video is not there (any more).
            PreviewFailed: it can't be drawn, or not in time; the log says why.
            OSError: the disk does not take it.
        """
        target = self._artifacts.preview(job.id, index, preview)
        if (making := self._making.get(target)) is None:
            making = self._making[target] = asyncio.create_task(self._ensure(job, index, preview, target))
            making.add_done_callback(lambda _: self._making.pop(target))
        # A client that goes away does not take the picture from the others who wait for it.
        await asyncio.shield(making)
        return target

    async def close(self) -> None:
        """End the children."""
        for making in (unfinished := list(self._making.values())):
            making.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    async def _ensure(self, job: Job, index: int, preview: Preview, target: Path) -> None:
        if await asyncio.to_thread(target.exists):
            return
        source = self._artifacts.file(job.id, job.files[index].name)
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            problem = await self._draw(job, preview, source, part)
            if problem is None:
                part.replace(target)
                await asyncio.to_thread(self._artifacts.measure, job.id)
        except FileNotFoundError:  # the job was deleted meanwhile
            problem = "its folder is gone"
        finally:
            part.unlink(missing_ok=True)
        if problem is not None:
            raise await asyncio.to_thread(_error, job, preview, source, problem)

    async def _draw(self, job: Job, preview: Preview, source: Path, part: Path) -> str | None:
        """What went wrong, if anything did."""
        film = (job.resolved.format, str(job.resolved.params.num_frames))
        paths = (str(source), str(part))
        arguments = (
            "-P",
            "-m",
            "encoding.preview_child",
            preview.name,
            *film,
            *paths,
            str(ceil(self._timeout_s)),
        )
        try:
            ended = await self._children.run(
                *arguments, timeout_s=self._timeout_s, variables={"PYTHONPATH": str(_ROOT)}
            )
        except TimeoutError:
            return f"not drawn within {self._timeout_s:g} s"
        if ended.status == 0:
            return None
        if ended.status == EXIT_UNWRITTEN:
            raise unwritten(ended.output)
        said = clean(ended.output.decode(errors="replace").strip(), 200)
        return f"the process ended with status {ended.status} {said}"


def _error(job: Job, preview: Preview, source: Path, problem: str) -> FileMissing | PreviewFailed:
    if not source.exists():
        return FileMissing(f"the file of video {job.id} is not there any more")
    logger.error("preview failed", extra={"job_id": job.id, "variant": preview.name, "reason": problem})
    return PreviewFailed(f"video {job.id}: its {preview.name} cannot be made")
