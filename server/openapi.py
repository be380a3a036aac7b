"""The request body in the OpenAPI document: the routes read it themselves, from either encoding."""

from __future__ import annotations

from typing import Any

from server.schemas import VideoGenerationRequest

_SCHEMA = VideoGenerationRequest.model_json_schema(ref_template="#/components/schemas/{model}")

REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": _SCHEMA} for kind in ("application/json", "multipart/form-data")},
    }
}
"""`openapi_extra` of every route that takes a generation request."""
