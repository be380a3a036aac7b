from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.settings import SettingsError, load
from tests.server.receiver import SECRET

TINY = Path("configs/tiny.yaml")
GOOD: dict[str, object] = {"url": "https://example.com/hook", "secret": SECRET}


def loaded(monkeypatch: pytest.MonkeyPatch, *webhooks: dict[str, object]) -> None:
    monkeypatch.setenv("REELSERVE_WEBHOOKS", json.dumps(webhooks))
    load(TINY)


def test_a_webhook_is_told_of_everything_unless_it_says_otherwise(tmp_path: Path) -> None:
    """From the YAML file; private addresses are off by default."""
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{TINY.read_text()}\nwebhooks:\n  - {{url: 'https://example.com/hook', secret: plain}}\n"
    )
    (webhook,) = load(config).webhooks
    assert webhook.events == ("video.completed", "video.failed")
    assert not webhook.allow_private
    assert webhook.secret.get_secret_value() == "plain"
    assert load(TINY).webhooks == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"url": "ftp://example.com/"}, r"webhooks\.0\.url.*http://"),
        ({"url": "example.com"}, r"webhooks\.0\.url.*http://"),
        ({"url": "http://127.0.0.1:9000/"}, r"webhooks\.0\.url.*not a public address"),
        ({"url": "http://[::ffff:10.0.0.1]/"}, r"webhooks\.0\.url.*not a public address"),
        ({"url": "https://user:pass@example.com/"}, r"webhooks\.0\.url.*user name"),
        ({"url": "https://example.com/" + "x" * 2000}, r"webhooks\.0\.url"),
        ({"secret": ""}, r"webhooks\.0\.secret"),
        ({"secret": "whsec_"}, r"webhooks\.0\.secret.*base64"),
        ({"secret": "whsec_not base64"}, r"webhooks\.0\.secret.*base64"),
        ({"events": []}, r"webhooks\.0\.events"),
        ({"events": ["video.started"]}, r"webhooks\.0\.events.*video\.completed"),
        ({"evnts": ["video.failed"]}, r"webhooks\.0\.evnts"),
    ],
    ids=str,
)
def test_a_wrong_webhook_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], told: str
) -> None:
    """The message names the setting, and never the secret."""
    with pytest.raises(SettingsError, match=told) as caught:
        loaded(monkeypatch, GOOD | change)
    assert SECRET not in str(caught.value)
    assert "not base64" not in str(caught.value)


def test_a_url_is_configured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two secrets for one URL would leave open which one signs."""
    with pytest.raises(SettingsError, match=r"webhooks.*more than once") as caught:
        loaded(monkeypatch, GOOD, GOOD | {"secret": "another"})
    assert "another" not in str(caught.value)


def test_a_secret_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the settings are printed, either."""
    monkeypatch.setenv("REELSERVE_WEBHOOKS", json.dumps([GOOD]))
    assert SECRET not in repr(load(TINY))


def test_a_private_receiver_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in the entry that is said."""
    loaded(monkeypatch, {"url": "http://127.0.0.1:9000/", "secret": "x", "allow_private": True})
