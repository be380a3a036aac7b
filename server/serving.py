"""What the commands do."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from encoding.formats import FORMATS
from server.app import create_app, running
from server.dispatcher import Dispatcher
from server.engine.base import Capabilities, Engine, EngineTask, Failed, Progress
from server.engine.local import LocalEngine
from server.errors import ApiError
from server.forms import read_form
from server.heap import return_large_blocks
from server.http import allow_connections, http_config
from server.kinds import CANONICAL
from server.meaning import understand
from server.multipart import Part
from server.params import Resolved, resolve
from server.progress import JobProgress
from server.reference_schemas import ORDERED, REFERENCES
from server.references import References
from server.remote import RemoteFiles
from server.schemas import VideoGenerationRequest
from server.settings import Settings
from server.spool import Spool
from server.start import StartError
from server.storing import with_references
from server.tasks import output_of

ANSWERS_S = 3
"""How long answers that are being sent may take once no job runs any more; a slow download ends there."""


async def serve(settings: Settings, _options: dict[str, Any]) -> int:
    """Serve until SIGTERM or Ctrl-C. Says `ready: URL` on standard output once a worker can take work.

    Raises:
        StartError: the address cannot be bound, the database cannot be used, or no worker can be started.
    """
    return_large_blocks()
    engine = LocalEngine(settings.engine, settings.model_configs, settings.encoding.mp4_codec)
    listener = _listen(settings)
    app = create_app(settings, engine)
    allow_connections(settings.server.max_connections)
    config = http_config(
        app,
        settings.server,
        lifespan="off",  # what it opens is opened here: uvicorn would log a traceback and exit with 3
        timeout_graceful_shutdown=ANSWERS_S + 1,  # the connections are gone by then
    )
    server = HttpServer(config, app.state.services.dispatcher, settings.server.shutdown_s)
    with server.signals():
        async with running(app.state.services):
            announcing = asyncio.create_task(_announce(engine, listener, server))
            await server.serve(sockets=[listener])
            announcing.cancel()
    if engine.failure is not None:
        raise StartError(engine.failure)
    return 0


class HttpServer(uvicorn.Server):
    """uvicorn's server, for which a signal is a normal end: it would raise it again after a clean stop.

    The first one lets what runs come to its end, within limits; reads are still answered meanwhile, so that
    clients see their jobs end. The second one ends that.
    """

    def __init__(self, config: uvicorn.Config, dispatcher: Dispatcher, drain_s: float) -> None:
        super().__init__(config)
        self._dispatcher = dispatcher
        self._drain_s = drain_s
        self._draining: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: `signals` has begun before and ends later."""
        yield

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Drain on the first signal, stop at once on the second."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        elif self._draining.done():
            self._hang_up()
        else:
            self.config.timeout_graceful_shutdown = 0
            self._draining.cancel()

    async def _drain(self) -> None:
        try:
            await self._dispatcher.drain(self._drain_s)
            await self._dispatcher.stop()  # whoever waits for a job gets an answer while answers are sent
        finally:
            self.should_exit = True
            asyncio.get_running_loop().call_later(ANSWERS_S, self._hang_up)

    def _hang_up(self) -> None:
        """End what is still being answered as if its clients had gone: each answer knows how to do that."""
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


async def generate(settings: Settings, options: dict[str, Any]) -> int:
    """Make one video into a file, with progress on standard error.

    Raises:
        StartError: a wrong parameter, no worker, or a failed generation.
    """
    target: Path = options["output"]
    with TemporaryDirectory(prefix="reelserve-") as name, Spool(Path(name)) as spool:
        parts = list(_parts(options, spool))
        async with _started(settings) as (engine, capabilities):
            try:
                request = understand(read_form(parts), refuse_unknown=True).request
                resolved = resolve(request, capabilities, settings)
                resolved = await _with_files(resolved, request, capabilities, settings, Path(name))
            except ApiError as error:
                raise StartError(error.message) from None
            await _make(engine, resolved, target)
    _say(f"{target}: {resolved.params.num_frames} frames, seed {resolved.params.seed}")
    return 0


async def check(settings: Settings, _options: dict[str, Any]) -> int:
    """Load everything once and say what would be served.

    Raises:
        StartError: something is missing; the message names it.
    """
    async with _started(settings) as (_, capabilities):
        _say(f"device: {capabilities.device}")
        _say(f"formats: {', '.join(capabilities.formats)}")
        _say(f"formats with sound: {', '.join(capabilities.sound_formats)}")
        _say(f"encoders of mp4: {', '.join(capabilities.mp4_codecs)}; {settings.encoding.mp4_codec} is set")
        for info in capabilities.models:
            names = ", ".join((info.id, *info.aliases))
            size = f"{info.defaults.width}x{info.defaults.height}"
            _say(f"model: {names}: {info.task}, {size}, {info.defaults.num_frames} frames")
    return 0


@asynccontextmanager
async def _started(settings: Settings) -> AsyncIterator[tuple[LocalEngine, Capabilities]]:
    """An engine for one command, with what it can do."""
    engine = LocalEngine(settings.engine, settings.model_configs, settings.encoding.mp4_codec)
    await engine.start()
    try:
        await engine.wait_ready()
        if engine.capabilities is None:
            raise StartError(engine.failure or "the worker ended")
        yield engine, engine.capabilities
    finally:
        await engine.stop()


async def _make(engine: LocalEngine, resolved: Resolved, target: Path) -> None:
    task = EngineTask("generate", resolved.params, (output_of(resolved, target),))
    progress = JobProgress()
    async with aclosing(engine.run(task)) as events:
        async for event in events:
            if isinstance(event, Progress):
                progress.note(event)
                _bar(progress)
            if isinstance(event, Failed):
                raise StartError(f"{event.code}: {event.message}")


async def _with_files(
    resolved: Resolved,
    request: VideoGenerationRequest,
    capabilities: Capabilities,
    settings: Settings,
    folder: Path,
) -> Resolved:
    references = References(settings.images, settings.media, folder, RemoteFiles(settings.urls))
    try:
        return await with_references(resolved, request, capabilities, references, lambda: folder)
    finally:
        await references.close()


def _parts(options: dict[str, Any], spool: Spool) -> Iterator[Part]:
    """The command's request as the parts of a form; what names a file for a reference is that file.

    Raises:
        StartError: a parameter that is no NAME=VALUE, or a file name that tells no format.
    """
    formats = {row.suffix: row.name for row in FORMATS.values()}
    suffix = options["output"].suffix
    if suffix not in formats:
        raise StartError(f"output: {options['output']} must end in one of {', '.join(formats)}")
    yield Part("prompt", options["prompt"])
    yield Part("output_format", formats[suffix])
    for param in options["param"]:
        name, sign, value = param.partition("=")
        if not sign or name in ("prompt", "output_format", "n"):
            raise StartError(f"param: {param!r} must be NAME=VALUE with a request field other than {name}")
        refers = CANONICAL.get(name.partition("[")[0]) in {*REFERENCES, ORDERED}
        # Not by pathlib, which fails at what is too long for a path, as a picture in a text is.
        yield Part(name, spool.copy_of(Path(value)) if refers and os.path.isfile(value) else value)  # noqa: PTH113


def _listen(settings: Settings) -> socket.socket:
    host, port = settings.server.host, settings.server.port
    listener = _bind(host, port)
    if not (settings.auth.keys or settings.server.allow_public or _is_loopback(listener)):
        listener.close()
        raise StartError(
            f"server.host: {host} can be reached from other machines, and there are no API keys; "
            "give auth.keys, or set server.allow_public"
        )
    return listener


def _is_loopback(listener: socket.socket) -> bool:
    """Judged by what was bound: `server.host` may be a name."""
    return ip_address(listener.getsockname()[0]).is_loopback


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its number: asyncio sends small answers at once (TCP_NODELAY) only where it sees that this is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartError(
            f"server.host, server.port: cannot listen on {host}:{port}: {error.strerror}"
        ) from None
    return listener


async def _announce(engine: Engine, listener: socket.socket, server: uvicorn.Server) -> None:
    """One line on standard output, once; a worker that cannot be started ends the server."""
    await engine.wait_ready()
    if engine.failure is not None:
        server.should_exit = True
        return
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"ready: http://{shown}:{port}", flush=True)  # noqa: T201 - what the command is asked to say


def _bar(progress: JobProgress) -> None:
    if sys.stderr.isatty():
        filled = "#" * (progress.percent // 4)
        sys.stderr.write(f"\r[{filled:<25}] {progress.percent:3d} % {progress.stage or '':<8}")
        sys.stderr.flush()


def _say(text: str) -> None:
    print(text)  # noqa: T201 - what the command is asked to say
