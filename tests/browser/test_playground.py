"""The page in a real browser, against the real server."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from server.engine.base import EngineTask, JobEvent, Progress, Started
from tests.e2e.requests import png
from tests.serving import Served
from tests.wire.instant import InstantEngine, listening, make_app

pytestmark = pytest.mark.browser

SMALL = {"size": "64x32", "num_frames": "5", "seed": "0"}
WAIT_MS = 120_000
"""What is waited for comes; a busy machine may take its time."""
expect.set_options(timeout=WAIT_MS)


class Endless(InstantEngine):
    """Every task is in its first step until it is cancelled."""

    async def run(self, task: EngineTask) -> AsyncGenerator[JobEvent, None]:
        events = self._events[task.job_id] = asyncio.Queue()
        yield Started(task.job_id)
        yield Progress(task.job_id, "denoise", 1, 2, 0.5)
        yield await events.get()


@contextmanager
def opened(url: str) -> Iterator[Page]:
    """The page in a browser; the test fails if that reports any error."""
    problems: list[str] = []
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-background-networking",
        "--disable-sync",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(f"{request.url}: {request.failure}"))
        page.goto(url)
        yield page
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=Path(folder) / "playground.png", full_page=True)
        browser.close()
    aborted = [problem for problem in problems if "ERR_ABORTED" not in problem]  # a video that was replaced
    assert aborted == []


@pytest.fixture
def page(served: Served) -> Iterator[Page]:
    """The playground, loaded."""
    with opened(served.url) as page:
        expect(page.locator("#model option")).to_have_count(5)
        yield page


def fill(page: Page, prompt: str, **fields: str) -> None:
    page.get_by_label("Prompt", exact=True).fill(prompt)
    for name, value in (SMALL | fields).items():
        page.locator(f"#request [name={name}]").fill(value)


def make(page: Page) -> None:
    page.get_by_role("button", name="Make the video").click()


def wait_for_a_picture(page: Page) -> None:
    """By an event: playwright's own waiting evaluates texts, which the page's policy forbids."""
    loaded = (
        "video.readyState >= 2 ? done() : video.addEventListener('loadeddata', () => done(), {once: true})"
    )
    page.locator("#video").evaluate(f"video => new Promise((done) => {{ {loaded} }})")


def test_a_prompt_becomes_a_video_that_plays(page: Page) -> None:
    """The browser's own decoder plays the file, in the size that was asked for; seed 0 is kept."""
    fill(page, "a red <b>circle</b>")
    make(page)
    expect(page.locator("#state")).to_have_text("completed")
    video = page.locator("#video")
    expect(video).to_be_visible()
    wait_for_a_picture(page)
    assert video.evaluate("video => [video.videoWidth, video.videoHeight]") == [64, 32]
    assert video.evaluate("video => video.duration") == pytest.approx(5 / 16, abs=1 / 16)
    assert page.locator("#facts").inner_text().endswith("Seed\n0")
    expect(page.locator("#videos .prompt").first).to_have_text("a red <b>circle</b>")


def test_a_refused_field_is_marked(page: Page) -> None:
    """The server's words, at the field that it names."""
    fill(page, "a red circle", size="720p")
    make(page)
    expect(page.locator("#error")).to_contain_text("size")
    expect(page.locator("#request [name=size]")).to_have_class("wrong")
    fill(page, "a red circle")
    make(page)
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#state")).to_have_text("completed")


def test_a_first_frame_for_the_models_that_take_one(page: Page) -> None:
    """The upload appears with the model, and starts the video."""
    expect(page.locator("#picture")).to_be_hidden()
    page.get_by_label("Model").select_option("tiny-wan-i2v")
    picture = {"name": "first.png", "mimeType": "image/png", "buffer": png()}
    page.locator("#request [name=input_reference]").set_input_files(picture)  # type: ignore[arg-type]
    fill(page, "it moves")
    make(page)
    expect(page.locator("#state")).to_have_text("completed")
    page.get_by_label("Model").select_option("tiny-wan-ti2v")
    expect(page.locator("#request [name=guidance_scale_2]")).to_be_hidden()
    expect(page.locator("#voice")).to_be_hidden()
    page.get_by_label("Model").select_option("tiny-wan-s2v")
    expect(page.locator("#voice")).to_be_visible()


def test_a_running_job_can_be_cancelled_and_deleted(tmp_path: Path) -> None:
    """Progress is shown on the way, the cancel is told, and the row goes."""
    app = make_app(tmp_path, Endless(slots=2))
    with listening(app) as url, opened(url) as page:
        page.locator("summary").click()
        for prompt in ("another one", "a long one"):
            fill(page, prompt, num_inference_steps="2")
            make(page)
            expect(page.locator("#facts")).to_contain_text(prompt)
            expect(page.locator("#state")).to_have_text("denoise 1/2")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#state")).to_contain_text("cancelled")
        row = page.locator("#videos li").first
        expect(row).to_contain_text("a long one")
        expect(row).to_contain_text("cancelled")
        row.get_by_role("button", name="Delete").click()
        expect(page.locator("#videos .prompt")).to_have_text(["another one"])


def test_a_key_is_asked_for_and_used(tmp_path: Path) -> None:
    """With keys, the page loads and shows nothing; the key makes it work, until the tab closes."""
    key = "a-key-for-the-browser"
    app = make_app(tmp_path, auth={"keys": [{"name": "browser", "key": key}]})
    with listening(app) as url, opened(url) as page:
        login = page.get_by_label("API key")
        expect(login).to_be_visible()
        expect(page.locator("#work")).to_be_hidden()
        login.fill("wrong")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#error")).to_contain_text("not known")
        expect(page.locator("#work")).to_be_hidden()
        login.fill(key)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#work")).to_be_visible()
        expect(page.locator("#error")).to_be_hidden()
        page.get_by_label("Prompt", exact=True).fill("a red circle")
        make(page)
        expect(page.locator("#state")).to_have_text("completed")
        wait_for_a_picture(page)
        assert str(page.locator("#download").get_attribute("href")).startswith("blob:")
        assert key not in page.content()
        page.reload()
        expect(page.locator("#videos li")).to_have_count(1)
        expect(login).to_be_hidden()


def test_the_page_runs_no_script_but_its_own(client: httpx.Client) -> None:
    """Its policy says so, and unknown files are not found."""
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"].split("; ")
    assert {"default-src 'self'", "object-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(
        policy
    )
    assert "unsafe" not in response.headers["content-security-policy"]
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/playground.js").headers["content-type"].split(";")[0].endswith("javascript")
    assert client.get("/static/..%2fapp.py").status_code == 404
