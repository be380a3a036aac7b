#!/bin/sh
# What curl sends. Arguments: the server's address, a picture.
set -eu
videos="$1/v1/videos"
quick='"prompt": "a red circle", "size": "64x32", "num_frames": 5, "num_inference_steps": 2'
curl() { command curl --silent --show-error --fail --output /dev/null "$@"; }

curl "$videos" -H 'Content-Type: application/json' -d "{$quick, \"guidance_scale_2\": 0.0}"
printf '{%s}' "$quick" | curl "$videos/sync" -H 'Content-Type: application/json' -H 'Transfer-Encoding: chunked' -d @-
curl "$videos" -F prompt='a red circle' -F model=tiny-wan-ti2v -F size=64x32 -F num_frames=5 \
  -F num_inference_steps=2 -F seed=0 -F 'video_codec_options={"crf": 30}' -F "input_reference=@$2"
