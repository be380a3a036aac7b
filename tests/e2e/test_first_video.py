"""From a request to a file that plays, through the real server."""

from __future__ import annotations

import base64
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import yaml

from tests.e2e.requests import SMALL, make, png, tensor_of
from tests.encoding.judge import assert_plays, psnr, watch
from tests.serving import Served, finished


def test_a_prompt_alone_is_enough(client: httpx.Client) -> None:
    """The model's own size, length and rate, as an MP4 that another decoder opens."""
    response = client.post("/v1/videos/sync", json={"prompt": "a red circle moves right"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "video/mp4"
    assert_plays(response.content, (160, 96), 17, Fraction(16))
    timing = {part.split(";")[0].strip() for part in response.headers["server-timing"].split(",")}
    assert timing == {"generation", "denoise", "decode", "encode", "queue", "total"}


def test_a_form_means_the_same_as_json(client: httpx.Client) -> None:
    """The same request both ways: byte-identical frames, byte-identical files."""
    for output_format in ("pt", "mp4"):
        fields = SMALL | {"output_format": output_format, "guidance_scale_2": 0.0, "boundary_ratio": 0.5}
        as_json = client.post("/v1/videos/sync", json=fields)
        parts = {name: (None, str(value)) for name, value in fields.items()}
        as_form = client.post("/v1/videos/sync", files=parts)
        assert as_json.status_code == as_form.status_code == 200
        assert as_json.content == as_form.content


def test_a_tensor_is_what_the_mp4_was_made_from(client: httpx.Client) -> None:
    """The `.pt` loads without pickled code, and the MP4 differs from it by codec loss alone.

    Black on white: edges between colours lose more, by half of the chroma's resolution.
    """
    fields = {"size": "160x96", "num_frames": 17, "num_inference_steps": 8}
    fields["prompt"] = "a black circle moving right on a white background"
    tensor = make(client, output_format="pt", **fields)
    assert tensor.headers["content-type"] == "application/octet-stream"
    loaded = tensor_of(tensor.content)
    frames = loaded["frames"]
    assert (frames.dtype, tuple(frames.shape), loaded["fps"]) == (torch.uint8, (17, 96, 160, 3), 16.0)
    decoded = watch(make(client, **fields).content).rgb
    assert psnr(decoded, frames.numpy()) > 35


def test_exactly_what_was_asked_for(client: httpx.Client) -> None:
    """A size, length and rate that are on no grid: in the job and in the file."""
    created = client.post(
        "/v1/videos", json=SMALL | {"size": "100x60", "num_frames": 18, "fps": 23.976}
    ).raise_for_status()
    assert created.json()["status"] in ("queued", "in_progress")
    video = finished(client, created.json()["id"])
    assert (video["size"], video["num_frames"], video["fps"], video["seed"]) == ("100x60", 18, 23.976, 7)
    assert video["status"] == "completed"
    assert video["progress"] == 100
    content = client.get(f"/v1/videos/{video['id']}/content").content
    assert_plays(content, (100, 60), 18, Fraction(2997, 125))


@pytest.mark.parametrize("model", ["tiny-wan-i2v", "tiny-wan-ti2v"])
def test_a_picture_starts_the_video(client: httpx.Client, model: str) -> None:
    """As a file and as a data URI: the same video, and another one than a different picture makes."""
    fields = SMALL | {"model": model, "output_format": "pt"}
    parts = {name: (None, str(value)) for name, value in fields.items()}
    as_file = client.post(
        "/v1/videos/sync", files=parts | {"input_reference": ("upload", png(), "application/octet-stream")}
    )
    uri = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    as_uri = client.post("/v1/videos/sync", json=fields | {"input_reference": {"image_url": uri}})
    other = base64.b64encode(png(32, 32)).decode()
    differs = client.post(
        "/v1/videos/sync",
        json=fields | {"input_reference": f"data:image/png;base64,{other}", "last_image": None},
    )
    assert (as_file.status_code, as_uri.status_code, differs.status_code) == (200, 200, 200), as_file.text
    assert as_file.content == as_uri.content != differs.content


def test_a_last_picture_ends_the_video(client: httpx.Client) -> None:
    """Given to the model that can; it changes the video."""
    uri = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    fields = {"model": "tiny-wan-i2v", "input_reference": uri, "output_format": "pt"}
    assert make(client, **fields).content != make(client, **fields, last_image=uri).content


def test_a_stream_is_a_fragmented_mp4(client: httpx.Client) -> None:
    """The bytes that come while it is made are the frames of the finished file."""
    fields = SMALL | {"num_frames": 17, "stream": True}
    with client.stream("POST", "/v1/videos/sync", json=fields) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "video/mp4"
        video_id = response.headers["x-video-id"]
        pieces = list(response.iter_raw())
    streamed = b"".join(pieces)
    assert streamed[4:8] == b"ftyp"
    assert b"moof" in streamed
    finished(client, video_id)
    stored = client.get(f"/v1/videos/{video_id}/content").content
    assert np.array_equal(watch(streamed).rgb, watch(stored).rgb)


def test_a_fixed_latent_of_the_request(client: httpx.Client, served: Served) -> None:
    """A file of the operator's folder is the noise; one of another shape fails with both shapes."""
    folder = next(served.data.parent.glob("latents*"))
    noise = torch.randn((1, 16, 2, 4, 8), generator=torch.Generator("cpu").manual_seed(7))
    torch.save(noise, folder / "noise.pt")
    torch.save(noise[:, :, :1], folder / "short.pt")
    assert make(client, seed=1, latent_path="noise.pt").content == make(client).content
    wrong = client.post("/v1/videos/sync", json=SMALL | {"latent_path": "short.pt"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_reference")
    assert "(1, 16, 1, 4, 8)" in wrong.json()["error"]["message"]
    assert "(1, 16, 2, 4, 8)" in wrong.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"size": "720p"}, "size"),
        ({"size": "101x60"}, "size"),
        ({"size": "64000x64000"}, "size"),
        ({"num_frames": 0}, "num_frames"),
        ({"num_frames": 10**6}, "num_frames"),
        ({"fps": 0}, "fps"),
        ({"seed": -1}, "seed"),
        ({"num_inference_steps": "two"}, "num_inference_steps"),
        ({"guidance_scale": 21}, "guidance_scale"),
        ({"guidance_scal": 9}, "guidance_scal"),
        ({"model": "tiny-wan-ti2v", "guidance_scale_2": 0}, "guidance_scale_2"),
        ({"model": "tiny-wan-i2v"}, "input_reference"),
        ({"output_format": "MOV"}, "output_format"),
        ({"video_codec_options": {"x264-params": "dump-yuv=/tmp/x"}}, "video_codec_options.x264-params"),
        ({"latent_path": "../../etc/passwd"}, "latent_path"),
        ({"input_reference": "data:image/png;base64,AAAA"}, "input_reference"),
    ],
)
def test_a_bad_field_is_refused_at_the_door(
    client: httpx.Client, served: Served, fields: dict[str, Any], param: str
) -> None:
    """400 that names the field; no job is written, and nothing is left on the disk."""
    before = client.get("/v1/videos", params={"limit": 1}).json()["first_id"]
    files = files_of(served)
    response = client.post("/v1/videos", json=SMALL | fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param), response.text
    assert error["type"] == "invalid_request_error"
    assert str(served.data) not in response.text
    assert client.get("/v1/videos", params={"limit": 1}).json()["first_id"] == before
    assert files_of(served) <= files  # what earlier tests left may still be going


def files_of(server: Served) -> set[Path]:
    """What there is but for the database; folders may go meanwhile."""
    walk = os.walk(server.data)
    return {Path(folder, name) for folder, _, names in walk for name in names if "sqlite" not in name}


def test_an_unknown_model(client: httpx.Client) -> None:
    """404 with OpenAI's code, naming what is served."""
    response = client.post("/v1/videos", json=SMALL | {"model": "sora-9"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
    assert "tiny-wan-t2v" in response.json()["error"]["message"]


def test_the_served_models(client: httpx.Client) -> None:
    """All with their tasks; an alias finds its model."""
    models = client.get("/v1/models").json()["data"]
    assert [(model["id"], model["task"]) for model in models] == [
        ("tiny-wan-t2v", "t2v"),
        ("tiny-wan-i2v", "i2v"),
        ("tiny-wan-ti2v", "ti2v"),
        ("tiny-minimax-h3", "omni"),
        ("tiny-wan-s2v", "s2v"),
    ]
    # What configs/tiny.yaml says of them reaches clients, through the worker.
    configured = yaml.safe_load(Path("configs/tiny.yaml").read_text())["models"]
    assert [model["description"] for model in models] == [model["description"] for model in configured]
    assert client.get("/v1/models/sora-2").json()["id"] == "tiny-wan-t2v"
    assert client.get("/v1/models/sora-9").status_code == 404


@pytest.mark.parametrize("path", ["/videos", "/openai/v1/videos", "/v1/videos/", "/videos/"])
def test_other_base_urls_reach_the_same_jobs(client: httpx.Client, path: str) -> None:
    """Answered in place: a redirect would lose the body."""
    created = client.post(path, json=SMALL)
    assert created.status_code == 200
    video = client.get(f"{path.rstrip('/')}/{created.json()['id']}")
    assert video.json()["prompt"] == SMALL["prompt"]
    client.delete(f"/v1/videos/{created.json()['id']}")


def test_health_answers_all_the_while(client: httpx.Client, served: Served, tmp_path: Path) -> None:
    """Asked again and again from a job's beginning to its end, also while it is decoded and encoded."""
    seen = {stage: tmp_path / stage for stage in ("denoise", "decode")}
    prompt = " + ".join(f"fault:held={file}@{stage}:1" for stage, file in seen.items())
    fields = SMALL | {"prompt": prompt, "size": "160x96", "num_frames": 33}
    video = client.post("/v1/videos", json=fields).raise_for_status().json()
    stages: list[str | None] = []
    with served.client() as other:
        while video["status"] in ("queued", "in_progress"):
            assert other.get("/health").status_code == 200
            video = client.get(f"/v1/videos/{video['id']}").json()
            stages.append(video["stage"])
            if stages.count(video["stage"]) == 2 and video["stage"] in seen:
                seen[video["stage"]].touch()
    assert video["status"] == "completed"
    assert stages.count("decode") > 1


def test_metrics_count_the_jobs(client: httpx.Client) -> None:
    """One more created and one more completed."""

    def value(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

    model = 'model="tiny-wan-t2v"'
    ended = f'reelserve_jobs_ended_total{{{model},outcome="completed"}}'
    names = (f"reelserve_jobs_created_total{{{model}}}", ended)
    before = [value(name) for name in names]
    make(client)
    assert [value(name) for name in names] == [count + 1 for count in before]


def test_the_list_is_in_the_types_of_the_wire(client: httpx.Client) -> None:
    """Newest first, with the ids of both ends, and whether there is more."""
    for _ in range(2):
        make(client)
    page = client.get("/v1/videos", params={"limit": 1}).json()
    assert page["object"] == "list"
    assert page["first_id"] == page["last_id"] == page["data"][0]["id"]
    assert page["has_more"] is True
    following = client.get("/v1/videos", params={"limit": 1, "after": page["last_id"]}).json()
    assert following["data"][0]["id"] != page["last_id"]
    assert client.get("/v1/videos", params={"limit": 0}).json()["error"]["param"] == "limit"


def test_no_answer_names_a_path_of_the_server(client: httpx.Client, served: Served) -> None:
    """Jobs, lists, errors and headers, `video_path` aside; nor does the log, of all tests before this one."""
    created = client.post("/v1/videos", json=SMALL).json()
    finished(client, created["id"])
    for path in (
        "/v1/videos",
        f"/v1/videos/{created['id']}",
        f"/v1/videos/{created['id']}/content",
        "/nothing",
    ):
        response = client.get(path)
        told = json.dumps(dict(response.headers)) + (
            response.text if "json" in response.headers["content-type"] else ""
        )
        assert str(served.data) not in told
    said = served.log.read_text()
    assert created["id"] in said
    assert str(served.data) not in said
    assert str(SMALL["prompt"]) not in said
