"""Standard Webhooks signatures, as the official clients' `webhooks.unwrap` verifies them."""

from __future__ import annotations

from datetime import datetime

from standardwebhooks import Webhook

PREFIX = "whsec_"
"""Before a secret that is base64; any other secret is its own characters."""


def signed_headers(secret: str, event_id: str, body: str, at: datetime) -> dict[str, str]:
    """The headers that prove who sent `body`, and when. `at` must be in UTC.

    Receivers take a stamp of a few minutes, so each attempt is signed anew.
    """
    key = secret if secret.startswith(PREFIX) else secret.encode()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(key).sign(event_id, at, body),
    }
