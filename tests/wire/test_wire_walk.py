"""Every path with every method, and paths that nobody meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.wire.envelope import error_of, judge

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
UNKNOWN = "video_" + "0" * 32
ODD_IDS = (
    "%00",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%0d%0ax-evil:%201",
    "%ff%fe",
    "%ed%a0%bd",
    "%E5%86%86",
    "%20",
    "%25",
    "{video_id}",
    "video_",
    "VIDEO_" + "0" * 32,
    "video_" + "g" * 32,
    "' OR 1=1 --",
    "x" * 8000,
    "-1",
    "null",
    "a;b",
    "a%3Fb%23c",
    "__proto__",
)


@pytest.fixture(scope="module")
def paths(client: httpx.Client, video_id: str) -> dict[str, set[str]]:
    """Every path of the OpenAPI document, for a video that exists, with the methods that it has."""
    described = client.get("/openapi.json").json()["paths"]
    methods = {path: {method.upper() for method in operations} for path, operations in described.items()}
    ids = {"{video_id}": video_id, "{model_id}": "text"}
    named = {path: re.sub(r"{\w+}", lambda place: ids.get(place[0], "x"), path) for path in methods}
    return {
        name: {method for path, own in methods.items() if template(path).fullmatch(name) for method in own}
        for name in named.values()
    }


def template(path: str) -> re.Pattern[str]:
    """`/v1/videos/edits` is also `/v1/videos/{video_id}`, for the methods that only the latter has."""
    return re.compile(re.sub(r"{\w+}", "[^/]+", path))


def spellings(path: str) -> Iterator[str]:
    """A path as clients with another base URL ask for it."""
    yield path
    yield path + "/"
    if path.startswith("/v1/"):
        yield "/openai" + path
    if path.startswith("/v1/videos"):
        yield path.removeprefix("/v1")
        yield path.removeprefix("/v1") + "/"


def test_every_path_with_every_method(client: httpx.Client, paths: dict[str, set[str]]) -> None:
    """What a path does not have is a 405 that names all that it has, under each of its addresses."""
    for path, own in paths.items():
        for method in set(METHODS) - {"DELETE", "GET"}:
            for spelling in spellings(path):
                answer = judge(client.request(method, spelling))
                if method not in own and answer.status_code == 405:
                    allowed = set(answer.headers["allow"].replace(" ", "").split(","))
                    assert allowed - {"HEAD"} == own, (method, spelling, allowed)
                else:
                    assert method in own or method == "HEAD", (method, spelling, answer.status_code)


def test_every_path_that_reads(client: httpx.Client, paths: dict[str, set[str]]) -> None:
    """GET and DELETE of each, last since they change what there is."""
    for method in ("GET", "DELETE"):
        for path, own in paths.items():
            for spelling in spellings(path):
                answer = judge(client.request(method, spelling))
                assert (answer.status_code == 405) == (method not in own), (method, spelling)


@pytest.mark.parametrize("odd", ODD_IDS, ids=lambda odd: odd[:20])
def test_odd_ids(client: httpx.Client, paths: dict[str, set[str]], odd: str) -> None:
    """No id is a reason to fail: there is no such thing, whatever is done to it."""
    for prefix in ("/v1/videos/", "/videos/", "/openai/v1/videos/", "/v1/models/", "/"):
        for tail in ("", "/", "/content", "/cancel", "/content?variant=thumbnail"):
            for method in ("GET", "HEAD", "POST", "DELETE"):
                answer = judge(client.request(method, f"{prefix}{odd}{tail}"))
                assert answer.status_code in (400, 404, 405), (method, prefix, tail, answer.status_code)


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/v1",
        "/v1/",
        "/v1/video",
        "/V1/videos",
        "//v1/videos",
        "/v1//videos",
        "/v2/videos",
        "/v1/videos/a/b/c",
        "/v1/chat/completions",
        "/openai/videos",
        "/openai/deployments/x/videos",
        "/openai/v1/videos/" + UNKNOWN,
        "/.env",
        "/static/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/%C3%A9",
        "/%00",
        "/" + "a" * 10_000,
        "/v1/videos%2f" + UNKNOWN,
        "/v1/videos/" + UNKNOWN + "/content/extra",
        "/:80",
        "/?",
        "/;a=b",
    ],
    ids=lambda path: path[:30],
)
def test_unknown_paths(client: httpx.Client, path: str) -> None:
    """Each is an ordinary answer in the envelope, whatever the method."""
    for method in METHODS:
        answer = judge(client.request(method, path))
        if answer.status_code >= 400 and method != "HEAD":
            assert error_of(answer)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=many",
        "limit=" + "9" * 5000,
        "limit=1&limit=2",
        "limit=%00",
        "limit=NaN",
        "order=up",
        "order=%ff",
        "after=nobody",
        "after=%00",
        "after=%ed%a0%bd",
        "after=" + "x" * 5000,
        "after[]=1",
        "__proto__=1",
        "%00=%00",
        "&&&===",
        "limit=%zz",
    ],
    ids=lambda query: query[:20],
)
def test_queries_of_the_list(client: httpx.Client, query: str) -> None:
    """A wrong value is a 400 or a 404, and a name that means nothing changes nothing."""
    assert judge(client.get(f"/v1/videos?{query}")).status_code in (200, 400, 404)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("index=-1", "index"),
        ("index=1", "index"),
        ("index=" + "9" * 5000, "index"),
        ("index=1e3", "index"),
        ("index=%00", "index"),
        ("variant=gif", "variant"),
        ("variant=", "variant"),
        ("variant=%ff", "variant"),
        ("variant=VIDEO", "variant"),
    ],
    ids=lambda value: value[:20],
)
def test_queries_of_a_file(client: httpx.Client, query: str, param: str) -> None:
    """Which file is wanted must be clear, or the parameter is named."""
    made = client.post("/v1/videos/sync", json={"prompt": "x"}).headers["x-video-id"]
    answer = judge(client.get(f"/v1/videos/{made}/content?{query}"))
    assert (answer.status_code, error_of(answer)["param"]) == (400, param)
