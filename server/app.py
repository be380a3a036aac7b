"""The application: routes, middleware, and what starts and stops with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from server import errors, openapi
from server.engine.base import Engine
from server.engine.local import LocalEngine
from server.paths import CanonicalPathMiddleware
from server.request_id import RequestIdMiddleware
from server.routes import content, events, health, models, playground, remix, videos
from server.services import Services, make_services
from server.settings import Settings


def create_app(settings: Settings, engine: Engine | None = None) -> FastAPI:
    """The ASGI application of one server; `engine` defaults to worker processes on this machine."""
    services = make_services(settings, engine or LocalEngine(settings.engine, settings.model_configs))

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
        responses=openapi.ANY_ERROR,
    )
    app.state.services = services
    for routes in (remix, videos, events, content, models, health, playground):
        app.include_router(routes.router)
    errors.install(app)
    openapi.install(app)
    app.add_middleware(CanonicalPathMiddleware)
    app.add_middleware(RequestIdMiddleware)
    return app


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Open the database, start the workers and the queue; stop them in the opposite order."""
    services.settings.data_dir.mkdir(parents=True, exist_ok=True)
    services.artifacts.open()
    services.uploads.open()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(services.database.close)
        await services.database.open()
        stack.push_async_callback(services.webhooks.stop)
        await services.webhooks.start()
        stack.push_async_callback(services.previews.close)
        stack.push_async_callback(services.engine.stop)
        await services.engine.start()
        stack.push_async_callback(services.dispatcher.stop)
        await services.dispatcher.start()
        yield
