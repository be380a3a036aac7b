"""A real architecture with random weights through the HTTP server on one GPU: time and memory of a request.

    python -m benchmarks.serve [--model t2v-a14b] [--steps 2] [--frames 81] [--size 832x480] [--repeat 3]
                               [--offload] [--card GIB]

Starts `reelserve serve` on a copy of the model's file in configs/ with `load_format: dummy`, posts the same
request several times to /v1/videos/sync, and prints the server's own timings, the device memory in use behind
it, and the most that torch had given out at once (`peak`). Frames of random weights are noise, the worst case
of the encoder. `--offload`: with `offload: model`. `--card`: on what is left of the GPU when all but so many
GiB are taken, as on a smaller one.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import torch
from PIL import Image

from benchmarks.running import Running, dummy_config, running

PEAK = re.compile(r"peak of device memory .*\bbytes=(\d+)")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = ["t2v-a14b", "i2v-a14b", "ti2v-5b", "minimax-h3"]
    parser.add_argument("--model", choices=models, default="t2v-a14b")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--size", default="832x480")
    parser.add_argument("--output", type=Path, default=Path("benchmark.mp4"))
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--card", type=float, metavar="GIB")
    options = parser.parse_args()
    changes = {"offload": "model"} if options.offload else {}
    taken_up = None if options.card is None else all_but(options.card)
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        with running(dummy_config(options.model, Path(folder), **changes), Path(folder)) as server:
            taken = time.monotonic() - started
            print(f"models built and ready after {taken:.1f} s; {memory_mib()} MiB in use", flush=True)
            for _ in range(options.repeat):
                report(server, options)
        print("server ended with status 0")
    del taken_up


def all_but(gib: float) -> torch.Tensor:
    """Memory of the first GPU that leaves so many GiB to others, for as long as it is held."""
    free, _ = torch.cuda.mem_get_info()
    return torch.empty(max(0, free - round(gib * 2**30)), dtype=torch.uint8, device="cuda")


def report(server: Running, options: argparse.Namespace) -> None:
    """Make one request and print its figures."""
    fields = {
        "prompt": "a red circle",
        "size": options.size,
        "num_frames": options.frames,
        "num_inference_steps": options.steps,
        "seed": 7,
    }
    if options.model in ("i2v-a14b", "ti2v-5b"):
        fields["input_reference"] = picture()
    started = time.monotonic()
    response = httpx.post(f"{server.url}/v1/videos/sync", json=fields, timeout=600).raise_for_status()
    taken = time.monotonic() - started
    options.output.write_bytes(response.content)
    timing = response.headers["Server-Timing"]
    memory = f"{memory_mib()} MiB in use, peak {peak_mib(server.log.read_text())} MiB"
    print(f"request {taken:.2f} s, {len(response.content):,} bytes; {timing}; {memory}", flush=True)


def picture() -> str:
    """A first frame, as a data URI."""
    buffer = io.BytesIO()
    Image.radial_gradient("L").convert("RGB").save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def memory_mib() -> str:
    """Memory of the server's GPU in use by all processes, in MiB, as the driver says."""
    query = ["nvidia-smi", "--query-gpu=index,uuid,memory.used", "--format=csv,noheader,nounits"]
    told = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    return used_mib(told, os.environ.get("CUDA_VISIBLE_DEVICES", "0"))


def used_mib(told: str, visible: str) -> str:
    """Of nvidia-smi's lines (index, UUID, MiB) that of the first GPU of CUDA_VISIBLE_DEVICES.

    The driver counts every card of the machine, whatever a process may see. An index is taken to be its own,
    which holds where all cards are of one kind, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    first = visible.split(",")[0].strip()
    for line in told.splitlines():
        index, uuid, used = (field.strip() for field in line.split(","))
        if first == index or (first.startswith("GPU-") and uuid.startswith(first)):
            return used
    return "an unknown number of"


def peak_mib(log: str) -> str:
    """What a worker's log says last of a job's peak, in MiB."""
    told = PEAK.findall(log)
    return str(int(told[-1]) // 2**20) if told else "an unknown number of"


if __name__ == "__main__":
    main()
