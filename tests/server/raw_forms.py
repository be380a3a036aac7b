"""Multipart forms by hand, where a client library would not write what is needed."""

from __future__ import annotations

FORM = "multipart/form-data; boundary=b"
GOOD = b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nx\r\n'
END = b"--b--\r\n"


def part(name: bytes, content: bytes, *headers: bytes) -> bytes:
    head = b'--b\r\nContent-Disposition: form-data; name="' + name + b'"\r\n'
    return head + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + content + b"\r\n"
