"""The request body in the OpenAPI document: the routes read it themselves, from either encoding."""

from __future__ import annotations

from typing import Any

from server.schemas import VideoGenerationRequest


def request_body() -> dict[str, Any]:
    """`openapi_extra` of a route that takes a generation request, as JSON or as a form."""
    schema = VideoGenerationRequest.model_json_schema()
    # Written out in place: FastAPI collects only the models that it reads itself.
    whole = _inlined(schema, schema.pop("$defs"))
    kinds = ("application/json", "multipart/form-data")
    return {"requestBody": {"required": True, "content": {kind: {"schema": whole} for kind in kinds}}}


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(value, definitions) for key, value in node.items()}
