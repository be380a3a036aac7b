"""The disk fills up under a real server and a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import Disk
from tests.e2e.requests import SMALL, make, until
from tests.serving import LIGHT, Served, finished, start, to_be_hurt

pytestmark = pytest.mark.mounts


@pytest.fixture
def own(tmp_path: Path, disk: Disk) -> Iterator[Served]:
    """A server whose files lie on the small disk."""
    yield from to_be_hurt(start(tmp_path / "data", "--artifacts.dir", str(disk.path / "artifacts"), **LIGHT))


def test_a_job_whose_disk_fills_up(own: Served, disk: Disk, tmp_path: Path) -> None:
    """It fails with the reason and leaves nothing; nothing more is taken, all that is there is served; and
    room is all that the next one needs.
    """
    held, full = tmp_path / "held", tmp_path / "full"
    with own.client() as client:
        before = make(client).content
        (done,) = client.get("/v1/videos").json()["data"]
        asked = SMALL | {"prompt": f"fault:held={full} once:{held}"}
        created = client.post("/v1/videos", json=asked).raise_for_status().json()
        until(held.exists)
        disk.fill()
        for path in ("/v1/videos", "/v1/videos/sync"):
            refused = client.post(path, json=SMALL)
            assert (refused.status_code, refused.json()["error"]["code"]) == (507, "storage_failed")
        full.touch()
        video = finished(client, created["id"])
        assert video["error"] == {
            "code": "storage_failed",
            "message": "the server could not store the file",
        }
        assert client.get(f"/v1/videos/{done['id']}/content").content == before
        assert client.get("/health").status_code == 200
        assert files(disk) == {"ballast", "video.mp4"}
        disk.clear()
        assert make(client).content == before
        assert own.process.poll() is None


def files(disk: Disk) -> set[str]:
    """Names of all files of the disk."""
    return {path.name for path in disk.path.rglob("*") if path.is_file()}
