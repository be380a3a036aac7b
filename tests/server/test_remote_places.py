"""Reference files by URL: whatever the URL says, the server only goes where anybody could."""

from __future__ import annotations

import pytest

from tests.server.internet import HERE, THERE, Internet, fetch, redirect, refused

UNREACHABLE = "input_reference: cannot be fetched: its host is not reachable, or not allowed"
PRIVATE_LITERALS = [
    "http://127.0.0.1/",
    "http://127.0.0.1:80/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://172.16.0.1/",
    "http://192.0.2.1/",
    "http://192.168.0.1/",
    "http://198.18.0.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:db8::1]/",
    "http://[fc00::1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://127。0。0。1/",
]
ODD_FORMS = [
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://0/",
    "http://134744072/",  # public, and still not for each program the same
    "http://8.8.8.8.1/",
    "http://１２７.０.０.１/",
    "http://①②⑦.⓪.⓪.①/",
    "http://[fe80::1%25lo]/",
    "http://[::1/",
    "http://::1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.public.example/",
    "http://user@public.example/",
    "http://user:secret@public.example/",
    "http://public.example@127.0.0.1/",
    "http://public.example%2f@127.0.0.1/",
    "http://public.example\\@127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "http://public.example#@127.0.0.1:1/\\",
    "http://1.1.1.1 &@127.0.0.1# @public.example/",
    "http://public.example\r\nX-Evil: 1/",
    "http://public.example/\tx",
    "http://",
    "http:///path",
    "http:public.example/",
    "http://.public.example/",
    "http://public..example/",
    "http://public.example../",
    "http://public.example:0/",
    "http://public.example:22/",
    "http://public.example:6379/",
    "http://public.example:99999/",
    "http://public.example:port/",
    "https://" + "a" * 64 + ".example/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
]
PRIVATE_NAMES = {
    "localhost": ["127.0.0.1"],
    "ip6-localhost": ["::1"],
    "private.example": ["10.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "mapped.example": ["::ffff:169.254.169.254"],
    "nat64.example": ["64:ff9b::a9fe:a9fe"],
    "both.example": [HERE, "10.0.0.1"],
    "both6.example": [THERE, "fd00::1"],
    "scoped.example": ["fe80::1%eth0"],
    "xn--bcher-kva.example": ["192.168.1.1"],
}


@pytest.mark.parametrize("url", PRIVATE_LITERALS + ODD_FORMS, ids=lambda url: url[:40])
async def test_no_form_of_a_url_reaches_inside(internet: Internet, url: str) -> None:
    """Refused by its text: no name is looked up and nothing is dialled."""
    message = await refused(url)
    assert message.startswith("input_reference: ")
    assert "secret" not in message
    assert (internet.asked, internet.dialled) == ([], [])


@pytest.mark.parametrize("name", PRIVATE_NAMES)
@pytest.mark.parametrize("form", ["http://{}/", "https://{}/x?y", "HTTP://{}./"])
async def test_no_name_reaches_inside(internet: Internet, name: str, form: str) -> None:
    """All of a name's addresses must be public. The answer is that for a name that nobody has."""
    internet.names.update(PRIVATE_NAMES)
    assert await refused(form.format(name)) == UNREACHABLE
    assert internet.dialled == []
    assert await refused("http://nobody.example/") == UNREACHABLE
    internet.down.add(HERE)
    assert await refused("http://public.example/") == UNREACHABLE


@pytest.mark.parametrize(
    ("url", "name", "dialled"),
    [
        ("http://public.example/", "public.example", (HERE, 80)),
        ("HTTP://PUBLIC.EXAMPLE./#fragment", "public.example", (HERE, 80)),
        ("http://public.example:443/", "public.example", (HERE, 443)),
        ("http://bücher.example/", "xn--bcher-kva.example", (THERE, 80)),
        ("http://8.8.8.8/", None, (HERE, 80)),
        ("http://[2606:4700:4700::1111]/", None, (THERE, 80)),
        ("http://[::ffff:8.8.8.8]/", None, ("::ffff:8.8.8.8", 80)),
    ],
)
async def test_public_places_are_asked(
    internet: Internet, url: str, name: str | None, dialled: tuple[str, int]
) -> None:
    """By name or address. A name is looked up once, and the very address that was checked is dialled."""
    internet.names["xn--bcher-kva.example"] = [THERE]
    if name is None:
        internet.names[dialled[0]] = internet.names["::ffff:808:808"] = [dialled[0]]
    assert await fetch(url) == b"content"
    assert internet.dialled == [dialled]
    assert name is None or internet.asked == [name]


async def test_another_answer_at_the_second_look_has_no_effect(internet: Internet) -> None:
    """A name whose owner changes it between the check and the connection: there is no second look."""
    answers = iter([[HERE], ["127.0.0.1"], ["127.0.0.1"]])
    internet.names["rebinding.example"] = lambda: next(answers)
    assert await fetch("http://rebinding.example/") == b"content"
    assert internet.dialled == [(HERE, 80)]
    assert await refused("http://rebinding.example/") == UNREACHABLE


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "//127.0.0.1/",
        "http://[::1]/",
        "http://2130706433/",
        "http://user:secret@public.example/",
        "http://public.example:22/",
        "file:///etc/passwd",
        "data:image/png;base64,iVBORw0KGgo=",
        "ftp://public.example/",
        "gopher://public.example/",
        "http://[",
        "http:\\\\127.0.0.1/",
        "javascript:alert(1)",
    ],
)
async def test_redirects_are_checked_like_the_first_url(internet: Internet, location: str) -> None:
    """One answer for all, since where it leads is not the client's to learn."""
    for status in (301, 302, 303, 307, 308):
        internet.pages["/go"] = redirect(location, status)
        message = await refused("http://public.example/go")
        assert message == "input_reference: cannot be fetched: it redirects to a place that is not allowed"
        assert {host for host, _ in internet.dialled} == {HERE}


async def test_a_redirect_to_a_private_name(internet: Internet) -> None:
    """The name is public by its look; its address is not."""
    internet.names["private.example"] = ["10.0.0.1"]
    internet.pages["/go"] = redirect("http://private.example/")
    assert await refused("http://public.example/go") == UNREACHABLE
    assert internet.dialled == [(HERE, 80)]


async def test_three_redirects_and_no_more(internet: Internet) -> None:
    """Relative ones too, each dialled anew."""
    internet.pages |= {f"/{left}": redirect(f"/{left - 1}" if left > 1 else "/") for left in (1, 2, 3, 4)}
    assert await fetch("http://public.example/3") == b"content"
    assert len(internet.dialled) == 4
    assert "more than 3 redirects" in await refused("http://public.example/4")
    assert "more than 0 redirects" in await refused("http://public.example/1", max_redirects=0)


async def test_nothing_of_ours_is_sent(internet: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no cookie, no credential, no referrer; a cookie that is set is not brought back."""
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    internet.pages["/go"] = redirect("/\r\nSet-Cookie: a=b")
    assert await fetch("http://public.example/go") == b"content"
    for sent in internet.requests:
        names = {line.partition(":")[0].lower() for line in sent.split("\r\n")[1:] if line}
        assert names == {"host", "user-agent", "accept", "accept-encoding"}
        assert "accept-encoding: identity" in sent.lower()
    assert internet.dialled == [(HERE, 80)] * 2


async def test_hosts_and_ports_are_the_operators(internet: Internet) -> None:
    """With a list of hosts, no other one is asked, by redirect neither."""
    internet.names["a.cdn.example"] = internet.names["evilcdn.example"] = [HERE]
    hosts = {"hosts": ("public.example", "*.cdn.example")}
    assert await fetch("http://public.example/", **hosts) == b"content"
    assert await fetch("http://a.cdn.example/", **hosts) == b"content"
    for host in ("evilcdn.example", "cdn.example", "public.example.evil.example", "8.8.8.8"):
        assert "not one of the hosts" in await refused(f"http://{host}/", **hosts)
    internet.pages["/go"] = redirect("http://evilcdn.example/")
    assert "not allowed" in await refused("http://public.example/go", **hosts)
    assert "port 8000 is not allowed" in await refused("http://public.example:8000/")
    assert await fetch("http://public.example:8000/", ports=(8000,)) == b"content"
