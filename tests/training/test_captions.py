"""Captions say what is on a scene, in words that the vocabulary and the tokenizer know."""

from __future__ import annotations

from random import Random

from training import captions, text, world

CANVAS = world.Canvas(160, 96, 17)


def test_every_word_is_in_the_vocabulary_and_one_piece_of_the_tokenizer() -> None:
    words = text.tokenizer()
    vocabulary = set(captions.vocabulary())
    for seed in range(500):
        said = captions.caption(world.scene(seed, CANVAS), Random(seed))
        assert set(said.split()) <= vocabulary
        assert len(words(said).input_ids) == len(said.split()) + 1


def test_a_caption_names_no_colour_that_is_not_there() -> None:
    for seed in range(500):
        scene = world.scene(seed, CANVAS)
        there = {scene.background, *(thing.colour for thing in scene.things)}
        assert set(captions.caption(scene, Random(seed)).split()) & set(world.COLOURS) <= there


def test_captions_of_a_scene_differ_in_words_and_length_and_may_be_one_attribute() -> None:
    scene = next(found for seed in range(50) if len((found := world.scene(seed, CANVAS)).things) == 1)
    said = {captions.caption(scene, Random(seed)) for seed in range(300)}
    assert len(said) > 50
    assert scene.things[0].colour in said
    assert f"{scene.background} background" in said
    assert any(scene.background not in one for one in said)
