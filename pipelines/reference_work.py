"""What references add to the work of a request, as their model says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReferenceWork:
    """How large pictures and films are to a model that reads them in every step beside the video.

    Sizes are those of the model's own rules before it rounds them to its grid.
    """

    picture_side: int
    """Pixels of the shorter side of a picture."""
    picture_frames: float
    """Frames of a video that are as much work as one picture of their size."""
    film_side: int
    """Pixels of the shorter side of a film."""
    film_pixels: int
    """The most pixels of a film's frame."""

    def of_picture(self, width: int, height: int) -> int:
        """Pixels × frames of the video that a picture of this shape is as much work as."""
        return round(self.picture_side**2 * _aspect(width, height) * self.picture_frames)

    def of_film(self, width: int, height: int, frames: int) -> int:
        """The same of a film, of which `frames` are read."""
        return round(min(self.film_side**2 * _aspect(width, height), self.film_pixels) * frames)


def _aspect(width: int, height: int) -> float:
    return max(width, height) / min(width, height)
