"""Whether the server is well, what it is, and its counters."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from server.services import START_RETRY_S, Services, ServicesDep

router = APIRouter(tags=["service"])


@router.get("/health")
async def health(services: ServicesDep) -> JSONResponse:
    """200 only while a worker can take work, or else 503."""
    if services.engine.ready:
        device = services.capabilities.device
        return JSONResponse({"status": "ok", "device": device, "queued": services.dispatcher.depth})
    return JSONResponse({"status": _trouble(services)}, 503, {"Retry-After": str(START_RETRY_S)})


@router.get("/live")
async def live() -> dict[str, str]:
    """200 while the process answers at all."""
    return {"status": "ok"}


@router.get("/version")
async def get_version() -> dict[str, str]:
    """The version of this server."""
    return {"version": version("reelserve")}


@router.get("/metrics")
async def metrics(services: ServicesDep) -> Response:
    """Counters for Prometheus."""
    return Response(generate_latest(services.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _trouble(services: Services) -> str:
    if services.engine.failure is not None:
        return "failed"
    return "starting" if services.engine.capabilities is None else "restarting"
