"""What a request may say of its references: types, no logic."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import AliasChoices, Field, InstanceOf, WithJsonSchema

from pipelines.base import ReferenceKind
from server.spool import Upload
from server.wire import Wire

ORDERED = "references"
MAX_ORDERED = 16


class Named(Wire):
    """A file that is named rather than uploaded: by this or by the URL that its kind has."""

    file_id: str | None = Field(
        None, description="refused: this server keeps no uploaded files", examples=["file-abc"]
    )

    @classmethod
    def url_key(cls) -> str:
        """What its URL is called."""
        (key,) = cls.model_fields.keys() - Named.model_fields.keys()
        return key

    @property
    def url(self) -> str | None:
        """`data:` URI or URL."""
        url: str | None = getattr(self, self.url_key())
        return url


_URL = "`data:` URI, or URL where the operator allows it"
_PICTURE_URL = "data:image/png;base64,iVBORw0KGgo="
_SOUND_URL = "data:audio/wav;base64,UklGRg=="
_FILM_URL = "data:video/mp4;base64,AAAAIGZ0eXA="


class ImageReference(Named):
    """A picture that is named rather than uploaded."""

    image_url: str | None = Field(None, repr=False, description=_URL, examples=[_PICTURE_URL])


class AudioReference(Named):
    """A sound that is named rather than uploaded."""

    audio_url: str | None = Field(
        None,
        repr=False,
        validation_alias=AliasChoices("audio_url", "image_url"),
        description=f"{_URL}; also `image_url`",
        examples=[_SOUND_URL],
    )


class VideoReference(Named):
    """A film that is named rather than uploaded."""

    video_url: str | None = Field(
        None,
        repr=False,
        validation_alias=AliasChoices("video_url", "image_url"),
        description=f"{_URL}; also `image_url`",
        examples=[_FILM_URL],
    )


REFERENCES: Mapping[str, type[Named]] = MappingProxyType(
    {
        "input_reference": ImageReference,
        "last_image": ImageReference,
        "audio_reference": AudioReference,
        "video_reference": VideoReference,
    }
)
"""Fields that take one file, and what names one there."""

File = Annotated[InstanceOf[Upload], WithJsonSchema({"type": "string", "format": "binary"})]
Reference = File | Named
"""A file, or a name for one; a bare URL on the wire is one too."""


class OrderedReference(Wire):
    """One of several references: exactly one of these."""

    image_url: File | str | None = Field(
        None, repr=False, description="picture: a file of a form, `data:` URI, or URL where that is allowed"
    )
    video_url: File | str | None = Field(None, repr=False, description="film, and its sound if it has any")
    audio_url: File | str | None = Field(None, repr=False, description="sound, also that of a film")

    @property
    def key(self) -> str:
        """The one that is given."""
        (key,) = (name for name in OrderedReference.model_fields if getattr(self, name) is not None)
        return key

    @property
    def kind(self) -> ReferenceKind:
        return ORDERED_KINDS[self.key]

    @property
    def source(self) -> Reference:
        """The file, or what names it, as a reference of its own."""
        value = getattr(self, self.key)
        return ImageReference(image_url=value) if isinstance(value, str) else value


ORDERED_KINDS: Mapping[str, ReferenceKind] = MappingProxyType(
    {"image_url": "image", "video_url": "video", "audio_url": "audio"}
)

PICTURE, SOUND, FILM = {"image_url": _PICTURE_URL}, {"audio_url": _SOUND_URL}, {"video_url": _FILM_URL}
