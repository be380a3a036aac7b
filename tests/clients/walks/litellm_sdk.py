"""Every call that the LiteLLM SDK has for videos; prints what came of each, one JSON object for all.

Runs in a process of its own. argv: the server's address, a picture, the provider.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import litellm
from openai import APIStatusError

PROMPT = "a red circle"
NOTHING = f"video_{'0' * 32}"
FEW = {"num_frames": 5, "num_inference_steps": 2, "size": "64x32"}
EXTRA = FEW | {
    "seed": 0,
    "guidance_scale_2": 0.0,
    "boundary_ratio": 1e-07,
    "stream": False,
    "video_codec_options": {"crf": 30, "preset": "veryfast"},
}


def outcome(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What the call returns, as JSON can say it, or its error."""
    try:
        result = call(*given, **named)
    except APIStatusError as error:
        return {"error": type(error).__name__, "status": error.status_code, "message": str(error)}
    return len(result) if isinstance(result, bytes) else plain(result)


def plain(result: Any) -> dict[str, Any]:
    whole: dict[str, Any] = result if isinstance(result, dict) else result.model_dump()
    return whole


def ended(video_id: str, server: Mapping[str, Any]) -> dict[str, Any]:
    for _ in range(2400):
        video = plain(litellm.video_status(video_id, **server))
        if video["status"] in ("completed", "failed"):
            return video
        time.sleep(0.1)
    raise TimeoutError(video_id)


def walk(provider: str, picture: bytes, server: Mapping[str, Any]) -> dict[str, Any]:
    own = {"custom_llm_provider": provider, **server}
    model, pictured = f"{provider}/sora-2", f"{provider}/tiny-wan-ti2v"
    made = plain(
        litellm.video_generation(prompt=PROMPT, model=model, seconds="4", extra_body=EXTRA, **server)
    )
    video_id = made["id"]
    return {
        "made": made,
        "ended": ended(video_id, server),
        "bytes": outcome(litellm.video_content, video_id, **server),
        "thumbnail": outcome(litellm.video_content, video_id, variant="thumbnail", **server),
        "pictured": outcome(
            litellm.video_generation,
            prompt=PROMPT,
            model=pictured,
            input_reference=picture,
            extra_body=FEW,
            **server,
        ),
        "async": plain(
            asyncio.run(litellm.avideo_generation(prompt=PROMPT, model=model, extra_body=FEW, **server))
        ),
        "list": outcome(litellm.video_list, limit=2, order="asc", after=video_id, **own),
        "remix": outcome(litellm.video_remix, video_id, prompt=PROMPT, **server),
        "edit": outcome(litellm.video_edit, prompt=PROMPT, video_id=video_id, **server),
        "extend": outcome(litellm.video_extension, prompt=PROMPT, video_id=video_id, seconds="4", **server),
        "bad": outcome(
            litellm.video_generation,
            prompt=PROMPT,
            model=model,
            extra_body={"guidance_scale": 99},
            **server,
        ),
        "unknown model": outcome(
            litellm.video_generation, prompt=PROMPT, model=f"{provider}/sora-9", **server
        ),
        "unknown video": outcome(litellm.video_status, NOTHING, **own),
    }


def main(url: str, picture: str, provider: str) -> None:
    litellm.suppress_debug_info = True
    server = {"api_base": f"{url}/v1", "api_key": "none"}
    json.dump(walk(provider, Path(picture).read_bytes(), server), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
