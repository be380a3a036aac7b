from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.base import DecodeConfig
from server.settings import SettingsError, default_config, leaves, load

TINY = Path("configs/tiny.yaml")

ONE_MODEL = """
models:
  - id: one
    kind: wan
    path: {path}
    width: 64
    height: 32
    num_frames: 5
    fps: {fps}
    num_inference_steps: 2
    guidance_scale: 0
    guidance_scale_2: 0.0
    limits: {{max_pixels: 10000, max_num_frames: 10}}
"""


DECODE = """
    decode: {decode}
"""


def write(folder: Path, text: str, **values: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text.format(**{"path": "some/model", "fps": "16"} | values))
    return path


def test_a_flag_beats_the_environment_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sources of one setting, in rising precedence; settings beside it are kept."""
    config = write(tmp_path, "server: {{port: 1, host: 127.0.0.2}}\n" + ONE_MODEL)
    assert load(config).server.port == 1
    monkeypatch.setenv("REELSERVE_SERVER__PORT", "2")
    assert load(config).server.port == 2
    settings = load(config, {"server": {"port": "3"}})
    assert (settings.server.port, settings.server.host) == (3, "127.0.0.2")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("servr: {{port: 1}}\n" + ONE_MODEL, "servr"),
        ("server: {{prot: 1}}\n" + ONE_MODEL, "server.prot"),
        ("server: {{port: 65536}}\n" + ONE_MODEL, "65535"),
        ("queue: {{max_jobs: 0}}\n" + ONE_MODEL, "queue.max_jobs"),
        ("models: []", "models"),
        ("{{}}", "models"),
        ("server: [", "config.yaml"),
        (ONE_MODEL.replace("num_frames: 5", "num_frames: 0"), "models.0.num_frames"),
        (ONE_MODEL.replace("width: 64", "width: 63"), "models.0.width"),
        (ONE_MODEL + "    colour: red\n", "models.0.colour"),
        (
            ONE_MODEL.replace("num_frames: 5", "num_frames: 11"),
            "11 given, above its limits.max_num_frames: 10",
        ),
        (ONE_MODEL.replace("width: 64", "width: 320"), "320x32 given, above its limits.max_pixels: 10000"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    """The message names the setting, or the file that is no YAML."""
    with pytest.raises(SettingsError, match=told.replace(".", r"\.")):
        load(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """As it was given."""
    with pytest.raises(SettingsError, match="nowhere"):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("name", ["REELSERVE_SERVR__PORT", "REELSERVE_SERVER__PROT", "REELSERVE_PORT"])
def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It would otherwise be ignored in silence."""
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError, match=name):
        load(TINY)


def test_zero_is_a_value_and_rates_are_exact(tmp_path: Path) -> None:
    """Guidance 0 is kept, and 23.976 is 2997/125."""
    model = load(write(tmp_path, ONE_MODEL, fps="23.976")).model_configs[0]
    assert (model.guidance_scale, model.guidance_scale_2, model.boundary_ratio) == (0.0, 0.0, None)
    assert model.fps == Fraction(2997, 125)
    assert load(write(tmp_path, ONE_MODEL, fps="24000/1001")).models[0].fps == Fraction(24000, 1001)


def test_a_model_path_is_relative_to_its_file_or_a_hub_id(tmp_path: Path) -> None:
    """A folder beside the file is found; what is no folder stays as it is."""
    (tmp_path / "here").mkdir()
    config = write(tmp_path, ONE_MODEL, path="here")
    assert load(config).model_configs[0].path == str((tmp_path / "here").resolve())
    config = write(tmp_path, ONE_MODEL, path="Wan-AI/Wan2.2-T2V-A14B-Diffusers")
    assert load(config).model_configs[0].path == "Wan-AI/Wan2.2-T2V-A14B-Diffusers"


def test_the_variable_for_a_fixed_latent_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FIXED_LATENT_PATH over `fixed_latent_path`, which benchmark set-ups already export."""
    config = write(tmp_path, "fixed_latent_path: file.pt\n" + ONE_MODEL)
    assert load(config).fixed_latent_path == Path("file.pt")
    monkeypatch.setenv("FIXED_LATENT_PATH", "variable.pt")
    assert load(config).fixed_latent_path == Path("variable.pt")


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    """Whoever holds them holds what the server was started with."""
    settings = load(write(tmp_path, ONE_MODEL))
    with pytest.raises(ValueError, match="frozen"):
        settings.data_dir = tmp_path  # type: ignore[misc]


def test_the_default_is_the_shipped_models() -> None:
    """Without a configuration, the tiny ones, on a loopback address."""
    settings = load(default_config())
    assert [model.id for model in settings.models] == [
        "tiny-wan-t2v",
        "tiny-wan-i2v",
        "tiny-wan-ti2v",
        "tiny-minimax-h3",
        "tiny-wan-s2v",
    ]
    assert settings.server.host == "127.0.0.1"
    assert not settings.artifacts.expose_paths


def test_every_setting_says_what_it_is() -> None:
    """The README's table and the command's help are made from it."""
    assert all(field.description for _, field in leaves())
    assert "server.port" in dict(leaves())


def test_a_model_says_how_it_is_decoded(tmp_path: Path) -> None:
    """`auto` leaves the steps to the memory; kernels are kept with the data unless a folder is named."""
    given = "{chunk_frames: 1, tile: none, exact: true, warm_sizes: [832x480]}"
    settings = load(write(tmp_path, ONE_MODEL + DECODE, decode=given))
    kernels = (settings.data_dir / "kernels").absolute()
    assert settings.model_configs[0].decode == DecodeConfig(1, None, True, ((832, 480),), kernels)
    settings = load(write(tmp_path, f"kernels_dir: {tmp_path}\n" + ONE_MODEL))
    assert settings.model_configs[0].decode == DecodeConfig(None, "auto", False, (), tmp_path)
    settings = load(write(tmp_path, ONE_MODEL + DECODE, decode="{tile: 512x256}"))
    assert settings.model_configs[0].decode.tile == (512, 256)
    assert settings.model_configs[0].decode.precision == "auto"
    settings = load(write(tmp_path, ONE_MODEL + DECODE, decode="{precision: fp8, exact: false}"))
    assert settings.model_configs[0].decode.precision == "fp8"


@pytest.mark.parametrize(
    "given",
    [
        "{chunk_frames: 0}",
        "{chunk_frames: all}",
        "{warm_sizes: [480p]}",
        "{chunk: 1}",
        "{tile: 512}",
        "{tile: 512x500}",
        "{tile: 0x512}",
        "{tile: 512x512, exact: true}",
        "{chunk_frames: 2, exact: true}",
        "{precision: fp16}",
        "{precision: e4m3}",
    ],
)
def test_a_misspelt_way_of_decoding_is_refused(tmp_path: Path, given: str) -> None:
    """The message names the setting."""
    with pytest.raises(SettingsError, match=r"decode.*(chunk_frames|warm_sizes|chunk|tile|precision)"):
        load(write(tmp_path, ONE_MODEL + DECODE, decode=given))


def test_fp8_is_not_exact(tmp_path: Path) -> None:
    """The message names both settings, and what is allowed."""
    given = "{precision: fp8, exact: true}"
    with pytest.raises(SettingsError, match=r"precision: fp8 given with exact: true, which allows auto only"):
        load(write(tmp_path, ONE_MODEL + DECODE, decode=given))
