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


def test_every_field_has_an_example_or_is_one(document: dict[str, Any]) -> None:
    """A reader sees a value of each; the only values that a schema allows, or another object, are one."""
    bodies = [schema for schema in inlined(document) if "properties" in schema]
    for schema in [*document["components"]["schemas"].values(), *bodies]:
        for name, field in schema.get("properties", {}).items():
            assert {"examples", "const", "enum"} & set(field) or '"$ref"' in json.dumps(field), (schema, name)


def inlined(node: Any) -> list[dict[str, Any]]:
    """Every schema of a body, which the routes read and write themselves."""
    if isinstance(node, list):
        return [schema for item in node for schema in inlined(item)]
    if not isinstance(node, dict):
        return []
    own = [node["schema"]] if isinstance(node.get("schema"), dict) else []
    return own + [schema for item in node.values() for schema in inlined(item)]


def test_every_operation_names_its_answers(document: dict[str, Any]) -> None:
    """Each has a summary of its own, errors in the envelope, no 422, and the request id on all."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            assert operation["description"], (method, path)
            assert "422" not in answers, (method, path)
            assert "default" in answers, (method, path)
            assert "{video_id}" not in path or "404" in answers, (method, path)
            assert all("X-Request-Id" in answer["headers"] for answer in answers.values()), (method, path)


def test_examples_of_errors_are_the_envelope(document: dict[str, Any]) -> None:
    """Each code of a status with a whole body, as a client will find it."""
    answers = document["paths"]["/v1/videos"]["post"]["responses"]
    examples = answers["400"]["content"]["application/json"]["examples"]
    assert {"invalid_body", "invalid_value", "missing_required_parameter"} <= set(examples)
    for code, example in examples.items():
        assert set(example["value"]["error"]) == {"message", "type", "param", "code"}
        assert example["value"]["error"]["code"] == code
    assert "Retry-After" in answers["429"]["headers"]
