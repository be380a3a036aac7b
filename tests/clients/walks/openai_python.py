"""Every call that openai-python has for videos. argv: the server's address, a picture."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any

from openai import APIStatusError, OpenAI, omit
from openai.types import Video

PROMPT = "a red circle"
SIZE: Any = "64x32"
NO_FILE: Any = omit
EXTRA = {
    "num_frames": 5,
    "num_inference_steps": 2,
    "seed": 0,
    "guidance_scale_2": 0.0,
    "boundary_ratio": 1e-07,
    "stream": False,
    "video_codec_options": {"crf": 30, "preset": "veryfast"},
    "metadata": {"tags": ["x", "y"], "people": [{"name": "a", "age": 1}, {"name": "b", "age": 2}]},
}


def main(url: str, picture: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # of the hosted service's end
    with OpenAI(base_url=f"{url}/v1", api_key="none") as api:
        video = api.videos.create_and_poll(
            model="sora-2", prompt=PROMPT, size=SIZE, extra_body=EXTRA, poll_interval_ms=200
        )
        make(api, Path(picture))
        look(api, video)
        go_on(api, video)


def make(api: OpenAI, picture: Path) -> None:
    api.videos.delete(api.videos.create(prompt=PROMPT, seconds="4", size=SIZE).id)
    few = {"num_frames": 5, "num_inference_steps": 2}
    api.videos.create(
        model="tiny-wan-ti2v", prompt=PROMPT, input_reference=picture.read_bytes(), extra_body=few
    )
    api.post("/videos", cast_to=Video, body={"prompt": PROMPT, "size": SIZE} | EXTRA)


def look(api: OpenAI, video: Video) -> None:
    next(iter(api.videos.list(limit=2, order="asc", after=video.id)))
    api.videos.download_content(video.id)
    api.videos.download_content(video.id, variant="thumbnail")


def go_on(api: OpenAI, video: Video) -> None:
    api.videos.remix(video.id, prompt=PROMPT, extra_body={"guidance_scale_2": 0.0})
    # The client types `video` as a file or `{"id"}` and refuses the latter itself; as an extra field it goes.
    by_id = {"video": {"id": video.id}}
    with contextlib.suppress(APIStatusError):  # 501: no model for it
        api.videos.edit(prompt=PROMPT, video=NO_FILE, extra_body=by_id)
    with contextlib.suppress(APIStatusError):
        api.videos.edit(prompt=PROMPT, video=b"\0\0\0\x18ftypmp42")
    with contextlib.suppress(APIStatusError):
        api.videos.extend(prompt=PROMPT, seconds="4", video=NO_FILE, extra_body=by_id)


if __name__ == "__main__":
    main(*sys.argv[1:])
