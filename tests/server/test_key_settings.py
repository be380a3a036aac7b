"""API keys in the configuration, and listening without any."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest

from server import cli
from server.sections import AuthSettings
from server.settings import SettingsError, default_config, load

KEY = "correct-horse-battery"


def keys(*entries: object) -> AuthSettings:
    return AuthSettings.model_validate({"keys": entries})


def refusal(monkeypatch: pytest.MonkeyPatch, *entries: object) -> str:
    """Why the configuration is refused."""
    monkeypatch.setenv("REELSERVE_AUTH__KEYS", json.dumps(entries))
    with pytest.raises(SettingsError) as refused:
        load(default_config())
    return str(refused.value)


def test_three_ways_to_give_one_key(tmp_path: Path) -> None:
    """Plain, by file (with the line's end that editors leave), by digest."""
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    digest = hashlib.sha256(KEY.encode())
    for given in ({"key": KEY}, {"key_file": file}, {"key_sha256": digest.hexdigest().upper()}):
        assert keys({"name": "a", **given}).keys[0].digest == digest.digest()


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"name": "a", "key": "short-secret"}, "key: a key has 16 to 512 printable"),
        ({"name": "a", "key": "secret with a space"}, "key: a key has 16"),
        ({"name": "a", "key": "secret-é-0123456789"}, "key: a key has 16"),
        ({"name": "a", "key": ""}, "key: a key has 16"),
        ({"name": "a", "key_sha256": "secret"}, "key_sha256"),
        (
            {"name": "a", "key_file": "/nowhere/at/all"},
            "key_file: /nowhere/at/all cannot be read: No such file",
        ),
        ({"name": "a"}, "needs one of key, key_file and key_sha256"),
        ({"name": "a", "key": KEY, "key_file": "x"}, "needs one of"),
        ({"name": "", "key": KEY}, "name"),
        ({"name": "a b", "key": KEY}, "name"),
        ({"name": "a" * 65, "key": KEY}, "name"),
        ({"key": KEY}, "name"),
        ({"name": "a", "key": KEY, "secret": "secret-of-mine-012"}, "secret"),
    ],
)
def test_a_wrong_entry_is_refused(monkeypatch: pytest.MonkeyPatch, entry: dict[str, str], told: str) -> None:
    """By the setting's name, never with its value."""
    message = refusal(monkeypatch, entry)
    assert "auth.keys" in message
    assert told in message
    assert not any(secret in message for secret in (KEY, "short-secret", "secret with", "secret-"))


def test_one_key_is_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key twice says nothing certain; one name with two keys is how keys are changed."""
    assert "more than once" in refusal(monkeypatch, {"name": "a", "key": KEY}, {"name": "b", "key": KEY})
    assert len(keys({"name": "a", "key": KEY}, {"name": "a", "key": KEY + "2"}).keys) == 2


def test_a_variable_that_cannot_be_read_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken JSON, with a key in it."""
    monkeypatch.setenv("REELSERVE_AUTH__KEYS", f'[{{"name": "a", "key": "{KEY}"')
    with pytest.raises(SettingsError) as refused:
        load(default_config())
    assert KEY not in str(refused.value)


def test_a_broken_file_is_not_shown(tmp_path: Path) -> None:
    """YAML's own errors quote nothing of it."""
    config = tmp_path / "config.yaml"
    config.write_text(f'auth:\n  keys:\n  - {{name: a, key: "{KEY}}}\n')
    with pytest.raises(SettingsError) as refused:
        load(config)
    assert KEY not in str(refused.value)


def test_no_flag_takes_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    """A command line is there for all users of a machine to read."""
    with pytest.raises(SystemExit):
        cli.main(["serve", "--auth.keys", KEY])
    assert "unrecognized arguments: --auth.keys" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])  # noqa: S104 - refused
def test_a_public_address_needs_keys(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends at once, and says what would help."""
    if host == "::" and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    assert cli.main(["serve", "--host", host, "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert f"server.host: {host} can be reached" in told
    assert "auth.keys" in told
    assert "server.allow_public" in told
