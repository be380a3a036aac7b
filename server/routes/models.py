"""The served models."""

from __future__ import annotations

from fastapi import APIRouter

from server.answers import ModelCard, ModelList
from server.echo import shown
from server.errors import ModelNotFound, NotReady
from server.openapi import error_answers
from server.services import ServicesDep

router = APIRouter(tags=["models"])


@router.get("/v1/models", responses=error_answers(NotReady))
async def list_models(services: ServicesDep) -> ModelList:
    """What can be asked for, with defaults and limits."""
    return ModelList(data=[ModelCard.model_validate(info) for info in services.capabilities.models])


@router.get("/v1/models/{model_id:path}", responses=error_answers(ModelNotFound, NotReady))
async def get_model(model_id: str, services: ServicesDep) -> ModelCard:
    """One model, by its id or one of its aliases."""
    for info in services.capabilities.models:
        if model_id == info.id or model_id in info.aliases:
            return ModelCard.model_validate(info)
    raise ModelNotFound(f"model {shown(model_id)} is not served here", param="model")
