"""Videos that start from another one."""

from __future__ import annotations

from typing import NoReturn

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from server.answers import Video
from server.auth.middleware import owner_of
from server.errors import IllegalMove, NotFound, NotSupported, VideoExpired
from server.intake import remix
from server.openapi import REFUSED_AT_THE_DOOR, error_answers, request_body
from server.remix import check_source
from server.results import created
from server.services import Services, ServicesDep

router = APIRouter(tags=["videos"])

_REFUSED = error_answers(*REFUSED_AT_THE_DOOR, NotFound, VideoExpired, IllegalMove)
_MISSING = error_answers(NotSupported)


@router.post(
    "/v1/videos/{video_id}/remix", response_model=Video, responses=_REFUSED, openapi_extra=request_body()
)
async def remix_video(video_id: str, request: Request, services: ServicesDep) -> JSONResponse:
    """Queue a video with a completed one's parameters, a new prompt, and any other field that is given."""
    return created(await remix(video_id, request, services), services)


@router.post("/v1/videos/edits", responses=_REFUSED | _MISSING)
async def edit_video(request: Request, services: ServicesDep) -> None:
    """Edit a video: needs a video-to-video model, of which none is there so far. Answers 501."""
    await _refuse(request, services, "edit a video")


@router.post("/v1/videos/extensions", responses=_REFUSED | _MISSING)
async def extend_video(request: Request, services: ServicesDep) -> None:
    """Go on from a video's end: needs a video-to-video model, of which none is there so far. Answers 501."""
    await _refuse(request, services, "extend a video")


@router.post("/v1/videos/characters", responses=_MISSING)
@router.get("/v1/videos/characters/{character_id}", responses=_MISSING)
async def characters() -> None:
    """Characters are a feature of the hosted service's own models. Answers 501."""
    raise NotSupported("characters are not supported: Wan and MiniMax-H3 have no such input")


async def _refuse(request: Request, services: Services, purpose: str) -> NoReturn:
    """What is wrong with the request is said first, so that a client can be tried out."""
    async with services.reader.read_edit(request) as (_, source):
        if isinstance(source, str):
            check_source(await services.store.owned(source, owner_of(request)))
    served = ", ".join(info.id for info in services.capabilities.models)
    raise NotSupported(
        f"no served model can {purpose}: that takes a video-to-video model; there are {served}"
    )
