"""One entry of the setting `webhooks`."""

from __future__ import annotations

import base64
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from server.addresses import check_url
from server.webhooks.signing import PREFIX

WebhookEvent = Literal["video.completed", "video.failed"]
MAX_URL = 2000


class WebhookSettings(BaseModel):
    """A service of the operator's that is told how jobs end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Before the URL, whose check it changes.
    allow_private: bool = Field(
        False, description="allow addresses that are not public, such as loopback or `10.0.0.0/8`"
    )
    url: str = Field(max_length=MAX_URL, description="where events are posted: http or https")
    secret: SecretStr = Field(
        min_length=1, description="signs the events: `whsec_` and base64, or any other text"
    )
    events: tuple[WebhookEvent, ...] = Field(
        get_args(WebhookEvent), min_length=1, description="which events it is told of"
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str, info: ValidationInfo) -> str:
        check_url(url, allow_private=info.data.get("allow_private", False))
        return url

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: SecretStr) -> SecretStr:
        text = secret.get_secret_value()
        if text.startswith(PREFIX) and not _is_base64(text.removeprefix(PREFIX)):
            raise ValueError(f"must be base64 after {PREFIX}")
        return secret


def _is_base64(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) > 0
    except ValueError:
        return False
