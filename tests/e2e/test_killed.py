"""`kill -9` at random moments: what a client was told stays true."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.requests import SMALL, video_of
from tests.serving import LIGHT, PATIENCE_S, finished, free_port, launch

MODELS: tuple[Mapping[str, str], ...] = ({}, LIGHT, LIGHT, LIGHT)
"""A tiny model; and one that costs next to nothing, so that more falls into the short time of a life."""
SERVERS = len(MODELS)
KILLS = (2, 6, 6, 6)
"""Of each server: 20 in all, most of those that are soon there again."""
EARLY_S, LATE_S = 2.0, 1.0
"""A kill comes this long at most after the first answer, or after the worker is ready."""
AHEAD = 4
"""Jobs that a client keeps unfinished."""


class Client(threading.Thread):
    """Makes, looks at and deletes jobs while servers come and go; remembers what it was told."""

    def __init__(self, url: str, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.created: list[str] = []
        self.deleted: set[str] = set()
        self.contents: dict[str, bytes] = {}
        self.problems: list[str] = []
        self.stopping = threading.Event()
        self._http = httpx.Client(base_url=url, timeout=PATIENCE_S)
        self._chance = chance
        self._unsure: set[str] = set()
        self._ended: set[str] = set()

    def run(self) -> None:
        with self._http:
            while not self.stopping.wait(0.15):
                with contextlib.suppress(httpx.TransportError):  # the server was killed
                    self._act()

    def _act(self) -> None:
        if len(self.created) - len(self._ended) < AHEAD:
            answer = self._http.post("/v1/videos", json=SMALL)
            if answer.status_code != 503:  # its first worker is not ready yet
                self.created.append(answer.raise_for_status().json()["id"])
        unfinished = [video_id for video_id in self.created if video_id not in self._ended]
        for video_id in unfinished + self._chance.sample(self.created, min(3, len(self.created))):
            self._look(video_id)
        if len(self.kept) > AHEAD and self._chance.random() < 0.1:
            self._erase(self._chance.choice(self.kept))

    def _look(self, video_id: str) -> None:
        answer = self._http.get(f"/v1/videos/{video_id}")
        if answer.status_code == 404:
            if video_id not in self.deleted | self._unsure:
                self.problems.append(f"{video_id} is lost")
            self._ended.add(video_id)
            return
        if video_id in self.deleted:
            self.problems.append(f"{video_id} came back")
        status = answer.raise_for_status().json()["status"]
        if status in ("completed", "failed"):
            self._ended.add(video_id)
        if status == "completed" and video_id not in self._unsure:
            content = self._http.get(f"/v1/videos/{video_id}/content").raise_for_status().content
            if self.contents.setdefault(video_id, content) != content:
                self.problems.append(f"{video_id} has other bytes than before")
        elif status != "completed" and video_id in self.contents:
            self.problems.append(f"{video_id} was completed and is not any more")

    def _erase(self, video_id: str) -> None:
        self._unsure.add(video_id)  # if no answer comes, it may be gone or not
        answer = self._http.delete(f"/v1/videos/{video_id}")
        if answer.status_code == 200:
            self.deleted.add(video_id)

    @property
    def kept(self) -> list[str]:
        """The jobs that nobody tried to delete."""
        return [video_id for video_id in self.created if video_id not in self.deleted | self._unsure]


def answers(http: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.get("/live").status_code == 200
    return False


def killed_again_and_again(data: Path, seed: int, kills: int, variables: Mapping[str, str]) -> Client:
    """One data folder under servers that are killed, and a last one that may finish all jobs."""
    chance, port = random.Random(seed), free_port()  # noqa: S311 - moments, not secrets
    url = f"http://127.0.0.1:{port}"
    client = Client(url, chance)
    client.start()
    workers: list[psutil.Process] = []
    for run in range(kills + 1):
        process, log = launch(data, "--port", str(port), "--queue.max_jobs", "10000", **variables)
        assert process.stdout is not None
        try:
            # One for all questions: to make a client takes a hundred times as long as to ask.
            with httpx.Client(base_url=url, timeout=PATIENCE_S) as http:
                while not answers(http):
                    assert process.poll() is None, log.read_text()
                    time.sleep(0.02)
            if run < kills:
                while run == 1 and not client.contents:  # a file that is to outlive all kills but one
                    assert client.is_alive()
                    time.sleep(0.02)
                live_a_while(process, chance)
                workers += psutil.Process(process.pid).children()
                continue
            assert process.stdout.readline().startswith("ready: "), log.read_text()
            while not client.kept:
                assert client.is_alive()
                time.sleep(0.05)
            client.stopping.set()
            client.join()
            check(client, url)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    _, alive = psutil.wait_procs(workers, PATIENCE_S)
    assert alive == []
    assert not [path for path in (data / "artifacts").rglob("*") if path.name.endswith(".part")]
    return client


def live_a_while(process: subprocess.Popen[str], chance: random.Random) -> None:
    """Wait for a random moment, before or after the worker is ready."""
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0, EARLY_S))
        return
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: ")
    time.sleep(chance.uniform(0, LATE_S))


def check(client: Client, url: str) -> None:
    """Every job that was made has ended as it may, and its file can be played; so have those that nobody was
    told of, because the server was killed before its answer.
    """
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as http:
        for video_id in client.kept:
            video = finished(http, video_id)
            if video["status"] == "failed":
                assert video["error"]["code"] == "server_restarted", video  # type: ignore[index]
                continue
            content = http.get(f"/v1/videos/{video_id}/content").raise_for_status().content
            assert video_of(content)[:2] == ((64, 32), 5)
            assert client.contents.get(video_id, content) == content
        assert all(http.get(f"/v1/videos/{video_id}").status_code == 404 for video_id in client.deleted)
        for video_id in all_of(http):
            finished(http, video_id)


def all_of(http: httpx.Client) -> list[str]:
    """The ids of all jobs that there are."""
    found: list[str] = []
    more = True
    while more:
        page = http.get("/v1/videos", params={"limit": 100} | ({"after": found[-1]} if found else {})).json()
        found += [video["id"] for video in page["data"]]
        more = page["has_more"]
    return found


@pytest.mark.timeout(1500)
def test_twenty_kills(tmp_path: Path) -> None:
    """Four servers, again and again: nothing that was promised is lost, nothing deleted comes back, finished
    files keep their bytes, no part file and no worker is left, and of all jobs only those fail that were
    running at two kills."""
    with ThreadPoolExecutor(SERVERS) as pool:
        folders = [tmp_path / str(number) for number in range(SERVERS)]
        clients = list(pool.map(killed_again_and_again, folders, range(SERVERS), KILLS, MODELS))
    assert [problem for client in clients for problem in client.problems] == []
    assert all(client.kept for client in clients)
    assert all(client.contents for client in clients)
