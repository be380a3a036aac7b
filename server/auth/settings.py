"""One entry of the setting `auth.keys`."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

MIN_KEY = 16
MAX_KEY = 512
MAX_NAME = 64
"""As long as the database's column of owners."""

_KEY = re.compile(rf"[\x21-\x7e]{{{MIN_KEY},{MAX_KEY}}}")
_ALLOWED = f"a key has {MIN_KEY} to {MAX_KEY} printable ASCII characters and no space"


class KeySettings(BaseModel):
    """A key, and the name of whoever has it. It is given in one of three ways."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[A-Za-z0-9._@-]+$",
        max_length=MAX_NAME,
        description="whose jobs are made with it; several keys may have one name",
    )
    key: SecretStr | None = Field(None, description=f"the key itself, of {MIN_KEY} characters or more")
    key_file: Path | None = Field(None, description="a file with nothing but the key, read at the start")
    key_sha256: str | None = Field(
        None, pattern=r"^[0-9a-fA-F]{64}$", description="its SHA-256 in hexadecimal digits: no secret"
    )
    _digest: bytes = PrivateAttr(b"")

    @model_validator(mode="after")
    def _read(self) -> Self:
        given = [value for value in (self.key, self.key_file, self.key_sha256) if value is not None]
        if len(given) != 1:
            raise ValueError("needs one of key, key_file and key_sha256")
        self._digest = self._read_digest()
        return self

    def _read_digest(self) -> bytes:
        if self.key_sha256 is not None:
            return bytes.fromhex(self.key_sha256)
        if self.key_file is not None:
            return digest_of(_checked(_content(self.key_file), "key_file"))
        assert self.key is not None
        return digest_of(_checked(self.key.get_secret_value(), "key"))

    @property
    def digest(self) -> bytes:
        """SHA-256 of the key."""
        return self._digest


def digest_of(key: str) -> bytes:
    """SHA-256 of a key as it is sent. Enough for a secret that is drawn, not thought up."""
    return hashlib.sha256(key.encode("latin-1", "replace")).digest()


def _checked(key: str, source: str) -> str:
    """The key. What is wrong with it is said without it."""
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{source}: {_ALLOWED}")
    return key


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ValueError(f"key_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"key_file: {path}: {_ALLOWED}") from None
