"""A whole server whose engine answers at once: the wire is real, only the video is always the same."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from fastapi import FastAPI

from encoding.formats import FORMATS
from server.app import create_app
from server.engine.base import DeviceFree, EngineTask, Finished, Fragment, JobEvent, Progress, Started
from server.http import http_config
from tests.encoding.clips import describe, encode, smooth
from tests.server.door import CAPABILITIES, make_settings
from tests.server.scripted import ScriptedEngine, written

TIMINGS = {"generation": 2.0, "denoise": 1.0, "decode": 0.5, "encode": 0.25}


@cache
def clip(format_name: str) -> bytes:
    """A file of two frames of 32×32."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"clip{FORMATS[format_name].suffix}"
        frames = smooth(2, 32, 32)
        encode(describe(path, frames), frames)
        return path.read_bytes()


class InstantEngine(ScriptedEngine):
    """Every task is finished as soon as it is begun."""

    capabilities = CAPABILITIES

    async def run(self, task: EngineTask) -> AsyncGenerator[JobEvent, None]:
        yield Started(task.job_id)
        yield Progress(task.job_id, "denoise", 1, 2, 0.5)
        if task.live:
            yield Fragment(task.job_id, clip(task.outputs[0].format))
        artifacts = tuple(written(spec, clip(spec.format)) for spec in task.outputs)
        yield DeviceFree(task.job_id)
        yield Finished(task.job_id, artifacts, TIMINGS)


def make_app(data: Path, engine: InstantEngine | None = None, /, **sections: Mapping[str, object]) -> FastAPI:
    """The application with every default, its files below `data`."""
    settings = make_settings(**sections).model_copy(update={"data_dir": data})
    return create_app(settings, engine or InstantEngine(slots=4))


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The address of a real HTTP server with this application, in a thread."""
    server = uvicorn.Server(http_config(app, app.state.services.settings.server, port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(60)
