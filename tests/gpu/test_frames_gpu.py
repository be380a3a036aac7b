"""On a CUDA device the same bytes are made, without making the producer wait for them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch

from encoding.errors import BadFrames
from encoding.formats import open_sink
from encoding.frames import RGB24, YUV420P, Packing, pack
from encoding.transfer import CudaTransfer, PinnedPool
from tests.encoding.clips import describe, encode, noise, smooth

pytestmark = pytest.mark.gpu

PACKINGS = pytest.mark.parametrize("packing", [RGB24, YUV420P], ids=lambda packing: str(packing.name))
NEVER = threading.Event()


def keep_busy(seconds: float) -> None:
    """Queue about that much work on the current stream of the device, at the least."""
    large = torch.rand(8192, 8192, device="cuda")
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
    began.record()
    large @ large
    ended.record()
    torch.cuda.synchronize()
    for _ in range(int(1000 * seconds / began.elapsed_time(ended)) + 1):
        large @ large


@PACKINGS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("height", "width"), [(60, 100), (480, 832)])
def test_the_device_packs_as_the_cpu_does(
    packing: Packing, dtype: torch.dtype, height: int, width: int
) -> None:
    """Every byte is the same, clipped values included."""
    clip = (1.3 * noise(5, height, width)).to(dtype)
    assert torch.equal(pack(clip.cuda(), packing).cpu(), pack(clip, packing))


@PACKINGS
def test_the_source_may_be_overwritten_at_once(packing: Packing) -> None:
    """Later work on the same stream does not reach the chunk, however far behind the device is."""
    clip = noise(9, 480, 832)
    transfer = CudaTransfer(packing, torch.device("cuda"), 2**28)
    buffer = clip[:, :3].cuda()
    keep_busy(0.3)
    arrivals = []
    for first in (0, 3, 6):
        buffer.copy_(clip[:, first : first + 3].pin_memory(), non_blocking=True)
        arrivals.append(transfer.send(buffer))
        buffer.fill_(float("nan"))
    del buffer
    torch.full((3, 9, 480, 832), 9.0, device="cuda")  # takes the memory that was just given up
    found = torch.cat([arrival.wait(NEVER) for arrival in arrivals])
    assert torch.equal(found, pack(clip, packing)[:-1].view(9, -1))


def test_the_devices_memory_is_given_up_at_once() -> None:
    """Whatever waits for the encoder waits on the host."""
    clip = noise(9, 480, 832).cuda()
    transfer = CudaTransfer(YUV420P, torch.device("cuda"), 2**28)
    transfer.send(clip).wait(NEVER)  # compiles the kernel
    before = torch.cuda.memory_allocated()
    arrivals = [transfer.send(clip) for _ in range(4)]
    assert torch.cuda.memory_allocated() == before
    packed = pack(clip, YUV420P)[:-1].view(9, -1).cpu()
    assert all(torch.equal(arrival.wait(NEVER), packed) for arrival in arrivals)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_found(value: float) -> None:
    """The flag comes with the pixels."""
    clip = smooth(3, 32, 48).cuda()
    clip[1, 2, 31, 47] = value
    arrival = CudaTransfer(YUV420P, torch.device("cuda"), 2**20).send(clip)
    with pytest.raises(BadFrames, match="NaN or infinity"):
        arrival.wait(NEVER)


def test_a_write_does_not_wait_for_the_device(tmp_path: Path) -> None:
    """It returns while the work before it is still running, and an abort does not wait for that either."""
    clip = smooth(8, 480, 832).cuda()
    sink = open_sink(describe(tmp_path / "clip.mp4", clip))
    sink.write(clip[:, :4])  # page-locks the first slot and loads the kernels
    torch.cuda.synchronize()
    time.sleep(0.5)  # until the encoder has given the slot back
    keep_busy(2)
    began = time.monotonic()
    sink.write(clip[:, 4:])
    assert time.monotonic() - began < 0.5
    assert not torch.cuda.current_stream().query()
    began = time.monotonic()
    sink.abort()
    assert time.monotonic() - began < 0.25
    assert not torch.cuda.current_stream().query()
    assert list(tmp_path.iterdir()) == []
    torch.cuda.synchronize()


def test_page_locked_memory_is_what_the_pool_counts() -> None:
    """torch rounds sizes up; the pool asks for no others."""
    torch.cuda.synchronize()
    torch.empty(1, pin_memory=True)  # torch sees now that copies of other tests are done
    before = torch.cuda.host_memory_stats()["active_bytes.current"]
    pool = PinnedPool(2**24)
    buffers = [pool.take(3_000_000), pool.take(5_000_000)]
    assert all(buffer.is_pinned() for buffer in buffers)
    assert torch.cuda.host_memory_stats()["active_bytes.current"] - before == pool.total == 2**22 + 2**23


@pytest.mark.parametrize("suffix", [".mp4", ".pt"])
def test_a_file_from_the_device_is_the_cpus(tmp_path: Path, suffix: str) -> None:
    """Byte for byte, over many chunks through a small ring."""
    clip = noise(41, 64, 96)
    spec = describe(tmp_path / f"cpu{suffix}", clip)
    small = describe(tmp_path / f"cuda{suffix}", clip, max_pending_bytes=100_000)
    assert encode(small, clip.cuda()).path.read_bytes() == encode(spec, clip).path.read_bytes()
