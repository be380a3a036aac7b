from __future__ import annotations

import json
import re
from typing import Any

import pytest

from server.app import create_app
from server.schemas import VideoGenerationRequest
from server.settings import default_config, load


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(load(default_config())).openapi()


def test_every_reference_in_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    """A client generator can follow them all."""
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)))
    assert references
    for reference in references:
        node: Any = document
        for part in reference.split("/"):
            node = node[part]


@pytest.mark.parametrize("path", ["/v1/videos", "/v1/videos/sync", "/v1/videos/generations"])
@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data"])
def test_the_request_is_described_in_both_encodings(document: dict[str, Any], path: str, kind: str) -> None:
    """With every field, each with a description."""
    schema = document["paths"][path]["post"]["requestBody"]["content"][kind]["schema"]
    assert set(schema["properties"]) == set(VideoGenerationRequest.model_fields)
    assert all("description" in field for field in schema["properties"].values())
