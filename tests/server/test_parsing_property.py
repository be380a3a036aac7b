from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.kinds import CANONICAL
from tests.server.door import Door, Outcome, make_settings

# What forms cannot carry as JSON does: NUL and half surrogates are refused in both, line ends are made one.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NUMBER = st.one_of(
    st.integers(-2, 600),
    st.integers(0, 2**64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(0, 130, places=3).map(str),
)
SCALAR = st.one_of(
    TEXT,
    NUMBER,
    NUMBER.map(str),
    st.booleans(),
    st.none(),
    st.sampled_from(
        ["auto", "832x480", "64*64", "24000/1001", "mp4", "RAW", "url", "path", "text", "both", ""]
    ),
)
OBJECT = st.dictionaries(
    st.sampled_from(["crf", "preset", "image_url", "seed", "fps", "x"]), SCALAR, min_size=1
)
WILD = st.dictionaries(
    st.sampled_from(sorted(CANONICAL)), st.one_of(SCALAR, OBJECT, OBJECT.map(json.dumps)), max_size=6
)
PLAUSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "size": st.sampled_from(["auto", "160x96", "64*64", "480X480", "100x60", None]),
        "seconds": st.one_of(st.integers(1, 8), st.floats(0.01, 5), st.sampled_from(["4", "8", ""])),
        "frame_rate": st.one_of(st.integers(1, 30), st.sampled_from([23.976, 24000 / 1001, "30000/1001"])),
        "guidance_scale": st.floats(0, 20),
        "guidance_scale_2": st.one_of(st.none(), st.floats(0, 20)),
        "negative_prompt": TEXT,
        "num_outputs_per_prompt": st.integers(1, 4),
        "format": st.sampled_from(["MP4", "auto", "webm", "raw"]),
        "extra_params": st.fixed_dictionaries({"flow_shift": st.floats(0.1, 30)}),
        "video_codec_options": st.sampled_from([{"crf": 20}, {"crf": "20", "preset": "fast"}, "{}"]),
    },
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(prompt=TEXT, fields=st.one_of(WILD, PLAUSIBLE))
async def test_json_and_form_agree_on_anything(prompt: str, fields: Mapping[str, Any]) -> None:
    """Any fields with any values: the same request and the same parameters, or the same refusal."""
    door = Door(make_settings())
    try:
        sent = {"prompt": prompt, "seed": 0, **fields}
        as_json, as_form = await door.both({name: _form_can_say(value) for name, value in sent.items()})
    finally:
        await door.close()
    assert as_json.status == as_form.status
    assert _meaning(as_json) == _meaning(as_form)


def _form_can_say(value: Any) -> Any:
    """A form has no types: what is no text reaches both dialects as its characters."""
    if isinstance(value, Mapping):
        return {key: _form_can_say(inner) for key, inner in value.items()}
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return "" if value is None else value


def _meaning(outcome: Outcome) -> object:
    if outcome.status != 200:
        return outcome.error["code"]
    drawn = outcome.numbers
    if "seed" not in outcome.values:
        drawn = replace(drawn, params=replace(drawn.params, seed=0))
    return outcome.values, drawn


NUMERIC = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.just(0)
)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(["seed", "num_frames", "fps", "seconds", "guidance_scale", "flow_shift", "n"]),
    number=NUMERIC,
)
async def test_a_number_and_its_text_are_one(name: str, number: float) -> None:
    """5, "5" and a form's 5 mean the same, and so do their refusals."""
    door = Door(make_settings())
    try:
        as_number = await door.json({"prompt": "x", "seed": 0, name: number})
        as_text = await door.json({"prompt": "x", "seed": 0, name: json.dumps(number)})
        as_form = await door.form([("prompt", "x"), (name, json.dumps(number))])
    finally:
        await door.close()
    assert as_number.status == as_text.status == as_form.status
    if as_number.status == 200:
        assert as_number.values == as_text.values
        assert as_number.values[name] == as_form.values[name]
