"""What httpx sends. argv: the server's address, a picture."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx

QUICK = {"prompt": "a red circle", "size": "64x32", "num_frames": 5, "num_inference_steps": 2}


def main(url: str, picture: str) -> None:
    with httpx.Client(base_url=url, timeout=240) as client:
        client.post("/v1/videos", json=QUICK | {"guidance_scale_2": 0.0}).raise_for_status()
        pictured = QUICK | {"model": "tiny-wan-ti2v", "seed": 0, "stream": False}
        files = {"input_reference": ("first.png", Path(picture).read_bytes())}
        client.post("/v1/videos", data=pictured, files=files).raise_for_status()


if __name__ == "__main__":
    main(*sys.argv[1:])
