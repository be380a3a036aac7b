"""Forms that are wrong somewhere: their parts, their names, their boundaries, what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.mutations import damaged, damaged_picture, good_pictures

FIELDS = (
    *("prompt", "model", "size", "seed", "fps", "n", "input_reference", "image", "last_image", "user"),
    *(
        "input_reference[image_url]",
        "extra_params[seed]",
        "video_codec_options[crf]",
        "k[]",
        "a[b][c]",
        "zzz",
    ),
)
NAMES = (
    *("", "x" * 5_000, "a[" * 50, "[]", "a[b", "prompt\0", "../../etc/passwd", 'quo"te', "semi;colon"),
    *(
        "pr\u00f6mpt",
        "a\rb",
        "prompt[]",
        "extra_params[input_reference]",
        "[[[[]]]]",
        "a[b][c][d][e][f][g][h][i]",
    ),
)
FILENAMES = (
    *("", "upload", "../../../../tmp/owned", "C:\\windows\\x.png", "a" * 10_000, "\0", "x.png\0.exe", "|ls"),
    *('"; name="prompt', "%2e%2e%2f", "\u202egnp.x", "CON", "/etc/passwd"),
)
HEADERS = (
    *(
        b"Content-Type: image/png",
        b"Content-Type: text/plain; charset=utf-16",
        b"Content-Type: multipart/mixed",
    ),
    *(b"Content-Transfer-Encoding: base64", b"Content-Transfer-Encoding: 8bit", b"Content-Length: 99999999"),
    *(b"X-A: " + b"b" * 9_000, b"Content-Disposition: form-data", b": nothing", b"No colon", b"\xff\xfe: x"),
    b"Content-Disposition: form-data; name=second; filename*=UTF-8''%2e%2e%2fx",
)
CONTENTS = (
    b"",
    b"x",
    b"\xff\xfe\x00",
    b"832x480",
    b"9" * 5_000,
    b'{"image_url": "data:,x"}',
    b"\r\n--b",
    b"null",
)
TYPES = (
    *(
        "multipart/form-data; boundary=b",
        'multipart/form-data; boundary="b"',
        "multipart/form-data; boundary=c",
    ),
    *("multipart/form-data; boundary=", "multipart/form-data", "multipart/form-data; boundary=" + "b" * 300),
    *(
        "multipart/form-data; boundary=b; charset=utf-16",
        "multipart/mixed; boundary=b",
        "application/json",
        "",
    ),
)
MAX_BODY = 3_000_000


@dataclass(slots=True)
class Piece:
    """One part, not yet written down."""

    name: str
    content: bytes
    filename: str | None = None
    headers: list[bytes] = field(default_factory=list)

    def written(self) -> bytes:
        said = f'Content-Disposition: form-data; name="{self.name}"'
        if self.filename is not None:
            said += f'; filename="{self.filename}"'
        lines = [b"--b", said.encode("utf-8", "surrogatepass"), *self.headers, b""]
        return b"\r\n".join([*lines, self.content, b""])


@dataclass(frozen=True, slots=True)
class Form:
    """What is sent: the pieces in which it arrives, its type, and its length, which may be a lie."""

    pieces: list[bytes]
    content_type: str
    length: int | None


def good_form(draw: Random) -> list[Piece]:
    """Parts that a server would take."""
    parts = [Piece("prompt", b"a red circle"), Piece("model", b"both"), Piece("seed", b"7")]
    if draw.random() < 0.5:
        parts.append(Piece("input_reference", draw.choice(good_pictures()), "upload"))
    return parts


def _another(parts: list[Piece], draw: Random) -> None:
    content = damaged_picture(draw) if draw.random() < 0.3 else draw.choice(CONTENTS)
    filename = draw.choice((None, draw.choice(FILENAMES)))
    parts.insert(draw.randrange(len(parts) + 1), Piece(draw.choice(FIELDS), content, filename))


def _rename(parts: list[Piece], draw: Random) -> None:
    draw.choice(parts).name = draw.choice(NAMES)


def _refile(parts: list[Piece], draw: Random) -> None:
    draw.choice(parts).filename = draw.choice(FILENAMES)


def _twice(parts: list[Piece], draw: Random) -> None:
    parts.append(draw.choice(parts))


def _many(parts: list[Piece], draw: Random) -> None:
    chosen, count = draw.choice(parts), draw.choice((10, 98, 200, 2_000))
    parts.extend([chosen] * min(count, MAX_BODY // (len(chosen.content) + 1)))


def _say_more(parts: list[Piece], draw: Random) -> None:
    draw.choice(parts).headers += [draw.choice(HEADERS)] * draw.choice((1, 1, 2, 20))


def _lose(parts: list[Piece], draw: Random) -> None:
    del parts[draw.randrange(len(parts))]


def _grow(parts: list[Piece], draw: Random) -> None:
    """Beyond what is kept in memory."""
    draw.choice(parts).content += draw.randbytes(1_000) * draw.choice((10, 300, 600))


CHANGES: Sequence[Callable[[list[Piece], Random], None]] = (
    *(_another, _rename, _refile, _twice, _many),
    *(_say_more, _lose, _grow),
)


def damaged_form(draw: Random) -> Form:
    """A form with one to three changes to its parts, or damage to its bytes, or both."""
    parts = good_form(draw)
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        if parts:
            draw.choice(CHANGES)(parts, draw)
    body = b"".join(part.written() for part in parts) + draw.choice(
        (b"--b--\r\n",) * 8 + (b"--b--", b"--b", b"")
    )
    body = body[: 2 * MAX_BODY]
    if draw.random() < 0.4:
        body = damaged(body, draw)
    kind = TYPES[0] if draw.random() < 0.8 else draw.choice(TYPES)
    length = draw.choice((None, len(body), len(body), 0, 3, 10**9, len(body) + 7))
    return Form(_in_pieces(body, draw), kind, length)


def _in_pieces(body: bytes, draw: Random) -> list[bytes]:
    step = (
        draw.choice((1, 7, 1_000, 65_536, 10_000_000)) if len(body) < 20_000 else draw.choice((9_999, 65_536))
    )
    return [body[start : start + step] for start in range(0, len(body), step)]
