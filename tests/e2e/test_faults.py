"""What happens when clients leave, workers die and servers are killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import torch

from tests.e2e.requests import ENDLESS, SMALL, begun, make, png, until, waiting
from tests.server.films import sound
from tests.serving import (
    FAULTS,
    LIGHT,
    ONE_MODEL,
    PATIENCE_S,
    SPEECH_MODEL,
    Served,
    finished,
    start,
    to_be_hurt,
    to_be_left,
)

CRASHED = "crashed"
"""Name of a file; while it is there no worker of `own` gets ready: what is so until then can be looked at."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A server of this test's own, to be hurt, whose jobs do what prompts ask for."""
    at_load = {"FAULT_ON_LOAD": f"held={tmp_path / 'looked'}", "FAULT_ON_LOAD_WHILE": str(tmp_path / CRASHED)}
    flags = ("--engine.cancel_timeout_s", "1")
    yield from to_be_hurt(start(tmp_path / "data", *flags, **LIGHT, **at_load))


def worker_of(server: Served) -> psutil.Process:
    """The process that owns the device."""
    children = psutil.Process(server.process.pid).children()
    (worker,) = [child for child in children if "server.engine.worker" in child.cmdline()]
    return worker


def test_a_client_that_leaves_frees_the_worker(client: httpx.Client) -> None:
    """The waiting request's job is cancelled, and the next one is served."""
    with waiting(client, ENDLESS | {"prompt": "a circle that nobody waits for"}) as left:
        pass
    make(client)
    job = finished(client, left)
    assert (job["status"], job["error"]["code"]) == ("failed", "cancelled")  # type: ignore[index]


def test_a_deleted_job_stops(client: httpx.Client, served: Served) -> None:
    """The worker takes the next job within a step, and nothing of the first one stays."""
    created = client.post("/v1/videos", json=ENDLESS | {"prompt": "a red circle"}).json()
    begun(client, created["id"])
    assert client.delete(f"/v1/videos/{created['id']}").status_code == 200
    make(client)
    assert client.get(f"/v1/videos/{created['id']}").status_code == 404
    assert not (served.artifacts / created["id"]).exists()


def test_three_good_jobs_after_an_abort(client: httpx.Client) -> None:
    """An abort in mid-stream poisons nothing: the same bytes as before it."""
    before = make(client).content
    paused = {"prompt": "fault:paused=/nowhere/never@decode:17", "num_frames": 33}
    with client.stream("POST", "/v1/videos/sync", json=SMALL | paused | {"stream": True}) as response:
        next(response.iter_raw())
    assert [make(client).content for _ in range(3)] == [before] * 3


def test_a_dead_worker_fails_its_job_and_comes_back(own: Served, tmp_path: Path) -> None:
    """The job says so, health is honest meanwhile, and the new worker makes the same bytes."""
    with own.client() as client:
        before = make(client).content
        created = client.post("/v1/videos", json=ENDLESS).json()
        begun(client, created["id"])
        (tmp_path / CRASHED).touch()
        worker_of(own).kill()
        video = finished(client, created["id"])
        assert (video["status"], video["error"]["code"]) == ("failed", "worker_crashed")  # type: ignore[index]
        assert client.get("/health").status_code == 503
        (tmp_path / "looked").touch()
        until(lambda: client.get("/health").status_code == 200)
        assert make(client).content == before


def test_a_crash_takes_no_other_job_along(own: Served, tmp_path: Path) -> None:
    """The one that was being encoded is made again, the one that waited is made; the culprit fails.

    A step that never ends is a crash too, once its job is deleted.
    """
    with own.client() as client:

        def create(prompt: str) -> str:
            video: dict[str, str] = client.post("/v1/videos", json=SMALL | {"prompt": prompt}).json()
            return video["id"]

        tail = create(f"fault:tail=600 once:{tmp_path / 'once'}")
        culprit, waits = create("fault:segfault"), create("a circle")
        assert finished(client, culprit)["error"]["code"] == "worker_crashed"  # type: ignore[index]
        assert [finished(client, video_id)["status"] for video_id in (tail, waits)] == ["completed"] * 2
        assert client.get("/health").status_code == 200

        hung, waits = create("fault:sleep=600"), create("a circle")
        begun(client, hung)
        assert client.delete(f"/v1/videos/{hung}").status_code == 200
        assert client.get(f"/v1/videos/{hung}").status_code == 404
        assert finished(client, waits)["status"] == "completed"
    assert own.stop() == 0
    assert "SIGSEGV" in own.log.read_text()
    assert [path.name for path in own.artifacts.rglob("*") if path.is_file()] == ["video.mp4"] * 3


def test_the_time_between_queued_jobs_is_counted(client: httpx.Client) -> None:
    """From the last chunk of one to the start of the next; `benchmarks/soak.py` says how long that is."""

    def gaps() -> float:
        name = 'reelserve_device_idle_seconds_bucket{le="+Inf"} '
        return float(client.get("/metrics").text.partition(name)[2].partition("\n")[0])

    before = gaps()
    made = [client.post("/v1/videos", json=SMALL).json()["id"] for _ in range(4)]
    assert [finished(client, video_id)["status"] for video_id in made] == ["completed"] * 4
    assert gaps() >= before + 3


def test_a_killed_server_takes_its_worker_along_and_comes_back(own: Served, tmp_path: Path) -> None:
    """The worker is gone; the next server serves what was finished and runs what was not."""
    once = tmp_path / "once"
    endless = {"prompt": f"fault:sleep=600 once:{once}"}
    with own.client() as client:
        done = client.post("/v1/videos", json=SMALL).json()["id"]
        finished(client, done)
        content = client.get(f"/v1/videos/{done}/content").content
        running = client.post("/v1/videos", json=SMALL | endless).json()["id"]
        queued = client.post("/v1/videos", json=SMALL).json()["id"]
        begun(client, running)
        until(once.exists)
    worker = worker_of(own)
    worker.suspend()  # so that it can do nothing about it itself
    own.process.kill()
    worker.wait(PATIENCE_S)
    again = start(own.data, **LIGHT)
    try:
        with again.client() as client:
            assert client.get(f"/v1/videos/{done}/content").content == content
            for video_id in (running, queued):
                assert finished(client, video_id)["status"] == "completed"
        parts = [path for path in own.artifacts.rglob("*") if path.is_file() and path.name != "video.mp4"]
        assert parts == []
    finally:
        assert again.stop() == 0


def test_a_folder_that_cannot_be_written(light: Served, tmp_path: Path) -> None:
    """The job fails as a matter of storage, without a path in the message, and the next one is made."""
    held, gone = tmp_path / "held", tmp_path / "gone"
    with light.client() as client:
        prompt = f"fault:held={gone} once:{held}"
        created = client.post("/v1/videos", json=SMALL | {"prompt": prompt}).json()
        until(held.exists)  # from then on the worker touches no file
        shutil.rmtree(light.artifacts / created["id"])
        gone.touch()
        video = finished(client, created["id"])
        assert video["error"]["code"] == "storage_failed"  # type: ignore[index]
        assert str(light.data) not in str(video)
        make(client)


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, with what it said."""
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--server.prot", "1"], "--server.prot"),
        (["--server.port", "99999"], "server.port"),
        (["--config", "missing.yaml"], "missing.yaml"),
        (["--config", "BROKEN"], "no-such-folder"),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, flags: list[str], told: str) -> None:
    """A non-zero status, and the name of what is wrong, on standard error."""
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        Path("configs/tiny.yaml").read_text().replace("../pipelines/tiny_trained/t2v", "no-such-folder")
    )
    flags = [str(broken) if flag == "BROKEN" else flag for flag in flags]
    command = [
        sys.executable,
        "-m",
        "server.cli",
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    ended = run([*command, *flags], environment)
    assert ended.returncode != 0
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr.splitlines()[-1]


def test_a_misspelt_variable_refuses_to_start(tmp_path: Path) -> None:
    """REELSERVE_SERVR__PORT is no setting."""
    command = [sys.executable, "-m", "server.cli", "serve", "--data-dir", str(tmp_path)]
    environment = os.environ | {"REELSERVE_SERVR__PORT": "1"}
    ended = run(command, environment)
    assert ended.returncode == 1
    assert "REELSERVE_SERVR__PORT" in ended.stderr


def test_a_video_without_a_server(tmp_path: Path) -> None:
    """`reelserve generate` writes the file that its name says, of files that its parameters name."""
    target, picture, voice = tmp_path / "out.mp4", tmp_path / "first.png", tmp_path / "voice.wav"
    picture.write_bytes(png())
    voice.write_bytes(sound("wav", "pcm_s16le"))
    command = [sys.executable, "-m", "server.cli", "generate", "a red circle", "-o", str(target)]
    given = SMALL | {"model": "tiny-wan-s2v", "input_reference": picture, "audio_reference": voice}
    params = [f"-p={name}={value}" for name, value in given.items() if name != "prompt"]
    ended = run([*command, *params], os.environ | SPEECH_MODEL)
    assert ended.returncode == 0, ended.stderr
    assert "5 frames, seed 7" in ended.stdout
    assert target.read_bytes()[4:8] == b"ftyp"


def test_what_would_be_served() -> None:
    """`reelserve check` names device, formats and models."""
    command = [sys.executable, "-m", "server.cli", "check"]
    ended = run(command, os.environ | ONE_MODEL)
    assert ended.returncode == 0, ended.stderr
    for told in (
        "device: cpu",
        "formats: mp4",
        "encoders of mp4: libx264, libx265, libsvtav1",
        "tiny-wan-t2v, sora-2: t2v, 160x96, 17 frames",
    ):
        assert told in ended.stdout


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of two workers, whose noise is in the file `noise.pt` beside its folder."""
    folder = tmp_path_factory.mktemp("pair")
    variables = {"FIXED_LATENT_PATH": str(folder / "noise.pt"), **FAULTS}
    yield from to_be_left(start(folder / "data", "--engine.devices", "cpu,cpu", **variables))


def noise_of(server: Served) -> Path:
    """A file of noise for `SMALL`, just written."""
    path = server.data.parent / "noise.pt"
    torch.save(torch.randn(16, 2, 4, 8), path)
    return path


def test_two_workers_work_side_by_side(pair: Served, tmp_path: Path) -> None:
    """One process a device: two jobs are in progress at once, and both videos are the same."""
    noise_of(pair)
    held = SMALL | {"prompt": f"fault:held={tmp_path / 'seen'}"}
    with pair.client() as client:
        until(lambda: 'reelserve_workers{state="up"} 2.0' in client.get("/metrics").text)
        made = [client.post("/v1/videos", json=held).json()["id"] for _ in "ab"]

        def running() -> bool:
            states = [client.get(f"/v1/videos/{video_id}").json()["status"] for video_id in made]
            return states == ["in_progress", "in_progress"]

        until(running)
        (tmp_path / "seen").touch()
        assert [finished(client, video_id)["status"] for video_id in made] == ["completed", "completed"]
        first, second = (client.get(f"/v1/videos/{video_id}/content").content for video_id in made)
        assert first == second


def test_a_fixed_latent_for_every_request(pair: Served) -> None:
    """FIXED_LATENT_PATH is read when a request needs it, not at the start; the seed has no say then."""
    noise_of(pair).unlink()
    with pair.client() as client:
        missing = client.post("/v1/videos/sync", json=SMALL)
        assert (missing.status_code, missing.json()["error"]["code"]) == (400, "invalid_reference")
        assert "noise.pt" in missing.json()["error"]["message"]
        noise_of(pair)
        assert make(client, seed=1).content == make(client, seed=2).content
