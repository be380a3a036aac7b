"""Single frames of a finished file as pictures: one reader for each kind of file.

A reader takes the file and numbers of frames in rising order, and yields these frames in RGB, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np
from PIL import Image
from safetensors import safe_open

from encoding.errors import BadFrames


def from_video(path: Path, numbers: Sequence[int]) -> Iterator[Image.Image]:
    """Decodes up to the last one that is wanted.

    Raises:
        BadFrames: the video ends before it.
        av.FFmpegError: it is damaged.
    """
    wanted = list(numbers)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1  # each thread holds pictures of its own
        for number, frame in enumerate(container.decode(stream)):
            if number == wanted[0]:
                yield Image.fromarray(frame.to_ndarray(format="rgb24"))
                wanted.pop(0)
            if not wanted:
                return
    raise BadFrames(f"{path.name}: has no frame {wanted[0]}")


def from_pt(path: Path, numbers: Sequence[int]) -> Iterator[Image.Image]:
    """Maps the file; only what is wanted is read."""
    import torch  # takes a second and 200 MB, which no other format needs

    frames = torch.load(path, mmap=True, weights_only=True)["frames"]
    for number in numbers:
        yield Image.fromarray(frames[number].numpy())


def from_safetensors(path: Path, numbers: Sequence[int]) -> Iterator[Image.Image]:
    """Reads only what is wanted."""
    with safe_open(str(path), framework="numpy") as file:
        frames = file.get_slice("frames")
        for number in numbers:
            yield Image.fromarray(np.asarray(frames[number]))
