"""Whether the server is well, what it is, and its counters."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from server.answers import Health
from server.errors import NotReady
from server.openapi import Responses, error_answers
from server.services import START_RETRY_S, ServicesDep

router = APIRouter(tags=["service"])

_COUNTERS: Responses = {
    200: {"description": "the counters", "content": {CONTENT_TYPE_LATEST: {"schema": {"type": "string"}}}}
}


@router.get("/health", responses=error_answers(NotReady))
async def health(services: ServicesDep) -> Health:
    """200 only while a worker can take work, or else 503."""
    device = services.capabilities.device
    if services.dispatcher.draining:
        raise NotReady("the server is stopping", START_RETRY_S)
    if not services.engine.ready:
        raise NotReady("no worker can take work: they are being restarted", START_RETRY_S)
    return Health(device=device, queued=len(services.dispatcher.roster.queue))


@router.get("/live")
async def live() -> dict[str, str]:
    """200 while the process answers at all."""
    return {"status": "ok"}


@router.get("/version")
async def get_version() -> dict[str, str]:
    """The version of this server."""
    return {"version": version("reelserve")}


@router.get("/metrics", response_class=Response, responses=_COUNTERS)
async def metrics(services: ServicesDep) -> Response:
    """Counters for Prometheus."""
    return Response(generate_latest(services.metrics.registry), media_type=CONTENT_TYPE_LATEST)
