"""`references`: several pictures, sounds and films in one order."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import httpx
import pytest
from pydantic import TypeAdapter

from pipelines.base import ModelLimits, Reference, ReferenceLimits
from pipelines.reference_work import ReferenceWork
from server.params import Resolved
from server.spool import Upload
from tests.server.door import Door, refused
from tests.server.films import film, sound
from tests.server.pictures import encoded, split
from tests.server.running import Server, serving
from tests.server.scripted import resolved
from tests.server.test_model_rules import door_to

LIMITS = ReferenceLimits(images=2, videos=1, audios=1, total=3, max_aspect=4, min_video_s=0.75)
PICTURE, SOUND, FILM = ({f"{kind}_url": "data:,x"} for kind in ("image", "audio", "video"))
FILE = ("upload", b"abc", "application/octet-stream")


async def test_a_form_numbers_them(door: Door) -> None:
    """Files and texts in any order of parts: the numbers say which comes first."""
    outcome = await door.form(
        [
            ("references[2][image_url]", "data:,z"),
            ("references[0][image_url]", FILE),
            ("references[10][audio_url]", FILE),
            ("prompt", "x"),
        ]
    )
    assert outcome.parsed is not None
    found = outcome.parsed.request.references
    assert found is not None
    assert [each.kind for each in found] == ["image", "image", "audio"]
    assert isinstance(found[0].image_url, Upload)
    assert found[0].image_url.read() == b"abc"
    assert found[1].image_url == "data:,z"


async def test_long_data_uris_are_files(door: Door) -> None:
    """They leave memory as those of the other references do."""
    data = bytes(300_000)
    uri = f"data:image/png;base64,{b64encode(data).decode()}"
    outcome = await door.json({"prompt": "x", "references": [{"image_url": uri}]})
    assert outcome.parsed is not None
    found = outcome.parsed.request.references
    assert found is not None
    assert isinstance(found[0].image_url, Upload)
    assert found[0].image_url.read() == data


@pytest.mark.parametrize(
    ("sent", "param", "words"),
    [
        ([{}], "references[0]", "one of image_url, video_url and audio_url"),
        ([{"image_url": "data:,x", "audio_url": "data:,x"}], "references[0]", "number them"),
        ([{"image_url": "data:,x"}, {"picture": "x"}], "references[1].picture", "there are audio_url"),
        ([{"image_url": 7}], "references[0].image_url", "must be text"),
        (["data:,x"], "references[0]", "must be an object"),
        ([{"image_url": "data:,x"}] * 17, "references", "17 are too many; at most 16"),
        ("data:,x", "references", "not valid JSON"),
        ('{"image_url": "data:,x"}', "references", "must be a list"),
        (7, "references", "must be a list"),
        ({"9" * 5000: {"image_url": "data:,x"}}, "references", "must be a list"),
        ({"00": {"image_url": "data:,x"}}, "references", "must be a list"),
    ],
)
async def test_what_is_no_list_of_references_is_refused(
    door: Door, sent: Any, param: str, words: str
) -> None:
    """With the place in the list, and what it must be."""
    outcome = await door.json({"prompt": "x", "references": sent})
    assert outcome.status == 400, outcome.body
    assert outcome.error["param"] == param
    assert words in outcome.error["message"]


async def test_numbers_with_gaps_are_the_names_of_what_is_wrong(door: Door) -> None:
    """A client looks for the name that it sent."""
    parts = [("prompt", "x"), ("references[3][image_url]", "data:,x")]
    outcome = await door.form([*parts, ("references[7]", "data:,y")])
    assert outcome.error["param"] == "references[7]"
    outcome = await door.form([*parts, ("references[7][audio_url]", "data:,y")])
    assert outcome.parsed is not None
    assert outcome.parsed.names["references[1]"] == "references[7][audio_url]"


@pytest.mark.parametrize("empty", [[], {}, "[]", "{}"])
async def test_an_empty_list_is_not_given(empty: Any) -> None:
    """In whatever spelling: a model that needs references says so, and another one does not mind."""
    async with door_to(references=replace(LIMITS, required=True)) as door:
        assert "is required" in (await door.json({"prompt": "x", "references": empty})).error["message"]
    async with door_to() as door:
        outcome = await door.json({"prompt": "x", "references": empty})
        assert outcome.parsed is not None
        assert outcome.parsed.request.references is None


async def test_a_form_that_does_not_number_different_kinds_is_refused(door: Door) -> None:
    """The order could not be told."""
    parts = [("prompt", "x"), ("references[][image_url]", "data:,x"), ("references[][audio_url]", "data:,y")]
    outcome = await door.form(parts)
    assert outcome.status == 400
    assert "references[0][image_url]" in outcome.error["message"]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"references": [PICTURE] * 3}, "references", "3 pictures are not allowed; text takes at most 2"),
        ({"references": [PICTURE, FILM, FILM]}, "references", "2 films"),
        ({"references": [SOUND]}, "references", "sounds alone"),
        ({"references": [PICTURE, SOUND, FILM, PICTURE]}, "references", "at most 3 in all"),
        ({"references": [PICTURE], "last_image": "data:,x"}, "last_image", "together with references"),
        ({"references": [PICTURE], "input_reference": "data:,x"}, "input_reference", "one or the other"),
        ({}, "references", "is required"),
    ],
)
async def test_a_models_limits_are_checked_at_the_door(
    fields: dict[str, Any], param: str, words: str
) -> None:
    """Kinds, number, and what cannot stand together."""
    limits = replace(LIMITS, required=not fields)
    async with door_to(references=limits, image="optional", last_image=True, last_image_alone=True) as door:
        error = (await door.json({"prompt": "x", **fields})).error
    assert error["param"] == param
    assert words in error["message"]


async def test_a_model_of_references_alone_says_where_pictures_go() -> None:
    """As one does of which only that task is loaded; and why it takes no films, if there is a reason."""
    limits = replace(LIMITS, videos=0, no_videos="this server lacks what reads them")
    async with door_to(references=limits, image="none", last_image=False) as door:
        for field in ("input_reference", "last_image"):
            error = await refused(door, **{field: "data:,x"})
            assert error["param"] == field
            assert "takes pictures in references" in error["message"]
        assert "takes no film" in (await refused(door, video_reference="data:,x"))["message"]
        error = await refused(door, references=[PICTURE, FILM])
        assert "text takes none; this server lacks what reads them" in error["message"]


async def test_other_models_take_none_and_a_last_picture_may_stand_alone(door: Door) -> None:
    """What is refused for the one is taken by the other."""
    assert (await refused(door, references=[PICTURE]))["param"] == "references"
    async with door_to(image="optional", last_image=True) as other:
        assert (await refused(other, last_image="data:,x"))["param"] == "last_image"
    async with door_to(image="optional", last_image=True, last_image_alone=True) as other:
        assert (await other.json({"prompt": "x", "last_image": "data:,x"})).status == 200


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Its model `text` takes references."""
    async with serving(tmp_path) as running:
        running.change_model(references=LIMITS)
        yield running


def ordered() -> dict[str, Any]:
    """A film with sound, a picture and a sound, as files of a form."""
    files = (
        ("video_url", film(audio="aac")),
        ("image_url", encoded(split(), "PNG")),
        ("audio_url", sound("mp3", "libmp3lame")),
    )
    return {
        f"references[{index}][{key}]": ("upload", data, "application/octet-stream")
        for index, (key, data) in enumerate(files)
    }


@pytest.mark.parametrize("room", [True, False])
async def test_they_are_counted_as_work(server: Server, room: bool) -> None:
    """A picture as its shape says, a film as long as it is, or the video; a sound is nothing.

    Here 64x48 for 5 frames; a picture of 18x9 and 2 frames; a film of 48 pixels at most and 5 frames. A
    form has no field of the name `references`, so its first one is named.
    """
    sizes = ReferenceWork(picture_side=9, picture_frames=2, film_side=9, film_pixels=48)
    work = 2 * (64 * 48 * 5 + 18 * 9 * 2 + 48 * 5)
    limits = ModelLimits(230_400, 100, max_pixel_frame_steps=work if room else work - 1)
    server.change_model(references=replace(LIMITS, work=sizes), limits=limits)
    asked = {"prompt": "x", "size": "64x48", "num_frames": 5, "num_inference_steps": 2}
    made = await server.client.post("/v1/videos", data=asked, files=ordered())
    assert made.status_code == (200 if room else 400), made.text
    if not room:
        error = made.json()["error"]
        assert error["param"] == "references[0][video_url]"
        assert "+ 564 of the references) × 2 steps × 1 videos are 31,848" in error["message"]


async def test_they_are_stored_in_their_order_and_read_again(server: Server, tmp_path: Path) -> None:
    """Checked and made uniform like single ones; a film keeps its sound. A remix takes them over."""
    made = await server.client.post("/v1/videos", data={"prompt": "x"}, files=ordered())
    assert made.status_code == 200, made.text
    folder = tmp_path / "uploads" / made.json()["id"]
    stored = server.engine.tasks[await server.finish()].params.references
    assert stored == (
        Reference("video", folder / "references_0.mkv"),
        Reference("image", folder / "references_1.png"),
        Reference("audio", folder / "references_2.wav"),
    )
    with av.open(str(stored[0].path)) as container:
        picture, heard = container.streams.video[0], container.streams.audio[0]
        assert (picture.codec_context.name, heard.codec_context.name) == ("ffv1", "pcm_f32le")
        counted = [type(frame) for frame in container.decode(picture, heard)]
    assert counted.count(av.VideoFrame) == 10
    assert counted.count(av.AudioFrame) > 0
    again = await server.client.post(f"/v1/videos/{made.json()['id']}/remix", json={"prompt": "y"})
    assert again.status_code == 200, again.text
    params = server.engine.tasks[await server.begun(2)].params
    assert [each.kind for each in params.references] == ["video", "image", "audio"]
    assert all(each.path.parent.name == again.json()["id"] for each in params.references)


async def test_a_repetition_is_one_job_and_another_order_is_another_request(server: Server) -> None:
    """By what the files hold and where they stand."""
    pictures = [encoded(split(width), "PNG") for width in (64, 96)]

    async def post(*order: int) -> httpx.Response:
        files = {
            f"references[{place}][image_url]": ("upload", pictures[number], "image/png")
            for place, number in enumerate(order)
        }
        headers = {"Idempotency-Key": "order-1"}
        return await server.client.post("/v1/videos", data={"prompt": "x"}, files=files, headers=headers)

    first, same, other = await post(0, 1), await post(0, 1), await post(1, 0)
    assert first.json()["id"] == same.json()["id"]
    assert other.json()["error"]["code"] == "idempotency_key_reused"


async def test_one_that_is_damaged_is_named(server: Server, tmp_path: Path) -> None:
    """By its place, as the client wrote it; nothing of the request stays."""
    files = ordered() | {"references[1][image_url]": ("upload", b"no picture", "image/png")}
    response = await server.client.post("/v1/videos", data={"prompt": "x"}, files=files)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "references[1][image_url]"
    assert response.json()["error"]["code"] == "invalid_image"
    assert list((tmp_path / "uploads").iterdir()) == []


async def test_a_film_that_is_too_short_is_named(server: Server, tmp_path: Path) -> None:
    """Each of its frames is shown until the next one, and the last one as long."""
    for frames, status in ((7, 400), (8, 200)):
        files = {"references[0][video_url]": ("upload", film(frames=frames))}
        response = await server.client.post("/v1/videos", data={"prompt": "x"}, files=files)
        assert response.status_code == status, response.text
        if status == 400:
            error = response.json()["error"]
            assert (error["param"], error["code"]) == ("references[0][video_url]", "invalid_media")
            assert error["message"].endswith("lasts 0.7 s; it must last at least 0.75 s")
            assert list((tmp_path / "uploads").iterdir()) == []


async def test_shapes_that_the_model_does_not_take_are_named(server: Server, tmp_path: Path) -> None:
    """Longer than four to one, as it is seen: by the picture's size, or the film's with square pixels."""
    tall, four = encoded(split().resize((16, 65)), "PNG"), encoded(split().resize((16, 64)), "PNG")
    wide = film(size=(64, 48), aspect=Fraction(4))
    for key, data, code, size in (
        ("image_url", tall, "invalid_image", "16x65"),
        ("video_url", wide, "invalid_media", "256x48"),
    ):
        files = {"references[0][image_url]": ("upload", four), f"references[1][{key}]": ("upload", data)}
        response = await server.client.post("/v1/videos", data={"prompt": "x"}, files=files)
        error = response.json()["error"]
        told = response.status_code, error["param"], error["code"], error["message"].partition(": ")[2]
        problem = f"has {size} pixels; it must be within 1:4 and 4:1"
        assert told == (400, f"references[1][{key}]", code, problem)
    assert list((tmp_path / "uploads").iterdir()) == []


def test_stored_jobs_keep_them(tmp_path: Path) -> None:
    """What is in the database reads back as it was."""
    adapter = TypeAdapter(Resolved)
    before = resolved(references=(Reference("image", tmp_path / "1.png"), Reference("audio", tmp_path / "2")))
    assert adapter.validate_json(adapter.dump_json(before)) == before
    older = json.loads(adapter.dump_json(before))
    del older["params"]["references"]
    assert adapter.validate_json(json.dumps(older)).params.references == ()
