"""The application: routes, middleware, and what starts and stops with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from server import cors, error_answers, openapi
from server.auth.middleware import ApiKeyMiddleware
from server.browsers import BrowserMiddleware
from server.engine.base import Engine
from server.engine.local import LocalEngine
from server.exclusive import only_server_of
from server.framing import OneLengthMiddleware
from server.http_metrics import HttpMetricsMiddleware
from server.paths import CanonicalPathMiddleware
from server.request_id import RequestIdMiddleware
from server.routes import content, docs, events, health, models, playground, remix, videos
from server.services import Services, make_services
from server.settings import Settings
from server.start import usable


def create_app(settings: Settings, engine: Engine | None = None) -> FastAPI:
    """The ASGI application of one server; `engine` defaults to worker processes on this machine."""
    services = make_services(
        settings, engine or LocalEngine(settings.engine, settings.model_configs, settings.encoding.mp4_codec)
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with running(services):
            yield

    app = FastAPI(
        title="reelserve",
        version=version("reelserve"),
        summary="OpenAI-compatible video generation on your own GPUs",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        responses=openapi.ANY_ERROR,
    )
    app.state.services = services
    for routes in (remix, videos, events, content, models, health, docs, playground):
        app.include_router(routes.router)
    error_answers.install(app)
    openapi.install(app, keys=bool(services.api_keys))
    app.add_middleware(ApiKeyMiddleware, keys=services.api_keys)
    if not services.api_keys:
        app.add_middleware(BrowserMiddleware, settings=settings.server)
    app.add_middleware(OneLengthMiddleware)
    app.add_middleware(HttpMetricsMiddleware, metrics=services.metrics)
    app.add_middleware(CanonicalPathMiddleware)
    cors.install(app, settings.server.cors_origins)
    app.add_middleware(RequestIdMiddleware)
    return app


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Open the database, start the workers and the queue; stop them in the opposite order.

    Raises:
        StartError: the folders or the database cannot be used, or another server uses them.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_folders(services))
        stack.push_async_callback(services.database.close)
        await stack.enter_async_context(services.database.exclusively())
        await services.database.open()
        stack.push_async_callback(services.webhooks.stop)
        await services.webhooks.start()
        stack.push_async_callback(services.previews.close)
        stack.push_async_callback(services.references.close)
        stack.push_async_callback(services.engine.stop)
        await services.engine.start()
        await services.keeper.sweep()
        stack.push_async_callback(services.keeper.stop)
        stack.push_async_callback(services.dispatcher.stop)
        await services.dispatcher.start()
        await services.keeper.start()
        yield


@asynccontextmanager
async def _folders(services: Services) -> AsyncIterator[None]:
    """The folders, made where they are not there, for this server alone."""
    settings = services.settings
    with usable("data_dir", settings.data_dir):
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    async with only_server_of(settings.data_dir / "server.lock", "data_dir", str(settings.data_dir)):
        with usable("data_dir", settings.spool_dir):
            settings.spool_dir.mkdir(exist_ok=True)
        with usable("data_dir", settings.uploads_dir):
            services.uploads.open()
        with usable("artifacts.dir", settings.artifacts_dir):
            services.artifacts.open()
        yield
