from __future__ import annotations

import json
from fractions import Fraction

import openai.types
import pytest
from pydantic import ValidationError

from server.answers import ErrorBody, ErrorDetail, ModelCard, Video, VideoDeleted, VideoList
from server.kinds import spellings
from server.schemas import TOLERATED, VideoGenerationRequest
from server.wire import rate_on_wire
from tests.server.door import CAPABILITIES


def video(**changes: object) -> Video:
    values: dict[str, object] = {
        "id": "video_" + "0" * 32,
        "created_at": 1,
        "status": "queued",
        "progress": 0,
        "model": "text",
        "prompt": "x",
        "seconds": "4",
        "size": "832x480",
        "num_frames": 64,
        "fps": Fraction(24000, 1001),
        "seed": 0,
        "num_inference_steps": 1,
        "guidance_scale": 0.0,
        "output_format": "mp4",
    }
    return Video.model_validate(values | changes)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        ("16", "16"),
        ("23.976", "23.976"),
        ("29.97", "29.97"),
        ("12.5", "12.5"),
        ("24000/1001", '"24000/1001"'),
        ("1/3", '"1/3"'),
    ],
)
def test_rates_are_numbers_where_those_are_exact(rate: str, text: str) -> None:
    """No rate is rounded on the wire."""
    assert json.dumps(rate_on_wire(Fraction(rate))) == text
    assert f'"fps":{text}' in video(fps=Fraction(rate)).model_dump_json()


def test_a_video_is_openais_video() -> None:
    """The official client's types take every state of ours, strictly (they know four sizes by name)."""
    for status in ("queued", "in_progress", "completed", "failed"):
        body = video(
            status=status, size="720x1280", completed_at=2, expires_at=3, error={"code": "c", "message": "m"}
        ).model_dump_json()
        theirs = openai.types.Video.model_validate_json(body, strict=True)
        assert (theirs.status, theirs.seconds, theirs.size) == (status, "4", "720x1280")
    gone = openai.types.VideoDeleteResponse.model_validate(
        VideoDeleted(id="video_1").model_dump(), strict=True
    )
    assert gone.deleted is True


def test_a_list_has_openais_keys() -> None:
    """Cursors are null in an empty list."""
    empty = VideoList(data=[], first_id=None, last_id=None, has_more=False)
    assert empty.model_dump() == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_no_other_status_word_is_possible() -> None:
    """openai-python's poll ends on any word but these four."""
    with pytest.raises(ValidationError):
        video(status="cancelled")


def test_a_model_card_is_made_from_what_a_worker_reports() -> None:
    """OpenAI's keys, and the defaults and limits that requests meet."""
    card = ModelCard.model_validate(CAPABILITIES.models[0]).model_dump(mode="json")
    assert openai.types.Model.model_validate(card, strict=True).id == "text"
    assert card["aliases"] == ["sora-2"]
    assert card["defaults"]["fps"] == 16
    assert card["defaults"]["guidance_scale_2"] == 3.0
    assert card["limits"] == {"max_pixels": 230_400, "max_num_frames": 161, "max_pixel_frame_steps": 10**9}


def test_the_error_body_is_the_envelope() -> None:
    """As the OpenAPI document shows it."""
    body = ErrorBody(error=ErrorDetail(message="m", type="t", param=None, code=None))
    assert body.model_dump() == {"error": {"message": "m", "type": "t", "param": None, "code": None}}


def test_every_field_is_described() -> None:
    """The OpenAPI document and the README are made from these."""
    for name, field in VideoGenerationRequest.model_fields.items():
        assert field.description, name
        if name not in TOLERATED and "reference" not in name and name not in ("last_image", "stream"):
            assert field.examples, name
    assert spellings("fps") == ("fps", "frame_rate")
    assert (
        VideoGenerationRequest.model_json_schema()["properties"]["seed"]["anyOf"][0]["maximum"] == 2**63 - 1
    )


def test_examples_are_allowed() -> None:
    """Each example of a field is a value that it takes."""
    for name, field in VideoGenerationRequest.model_fields.items():
        if name in ("size", "seconds", "fps", "guidance_scale", "extra_params", "video_codec_options"):
            continue
        for example in field.examples or ():
            VideoGenerationRequest.model_validate({"prompt": "x", name: example})
