"""What is said of a scene, in many words or few, and every word there is."""

from __future__ import annotations

from random import Random

from training import world
from training.world import Scene, Thing

SHAPES = {
    "circle": ("circle", "disc", "ball"),
    "square": ("square", "box"),
    "triangle": ("triangle",),
    "star": ("star",),
}
MOTIONS = {
    "left": ("moving left", "going left", "moving to the left", "moves left"),
    "right": ("moving right", "going right", "moving to the right", "moves right"),
    "up": ("moving up", "going up", "rising", "moves up"),
    "down": ("moving down", "going down", "falling", "moves down"),
    "up left": ("moving up left", "moving up and to the left", "moves up left"),
    "up right": ("moving up right", "moving up and to the right", "moves up right"),
    "down left": ("moving down left", "moving down and to the left", "moves down left"),
    "down right": ("moving down right", "moving down and to the right", "moves down right"),
    "growing": ("growing", "getting larger", "grows"),
    "shrinking": ("shrinking", "getting smaller", "shrinks"),
    "still": ("standing still", "at rest", "not moving"),
}
SPEEDS = {"slow": ("slowly",), "normal": (), "fast": ("fast", "quickly")}
BACKGROUNDS = ("on a {} background", "on {}", "in front of a {} background")
OPENINGS = ("", "", "", "a video of ", "an animation of ")

_LEFT_OUT = 0.12
"""Share of captions that leave out one particular thing, so that prompts need not say everything."""
_BARE = 0.1
"""Share of captions that are no more than one attribute: what a negative prompt says."""


def caption(scene: Scene, chance: Random) -> str:
    """One caption of many that fit `scene`."""
    if chance.random() < _BARE:
        return chance.choice(_bare(scene, chance))
    things = list(scene.things)
    chance.shuffle(things)
    text = " and ".join(_thing(thing, chance) for thing in things)
    if chance.random() > _LEFT_OUT:
        text += " " + chance.choice(BACKGROUNDS).format(scene.background)
    return chance.choice(OPENINGS) + text


def vocabulary() -> list[str]:
    """Every word of every caption, sorted."""
    phrases = [
        *world.COLOURS,
        *OPENINGS,
        *BACKGROUNDS,
        *(word for choices in (SHAPES, MOTIONS, SPEEDS) for words in choices.values() for word in words),
        "a an and",
    ]
    return sorted({word for phrase in phrases for word in phrase.replace("{}", "").split()})


def _thing(thing: Thing, chance: Random) -> str:
    words = ["an" if thing.colour == "orange" else "a", thing.colour, chance.choice(SHAPES[thing.shape])]
    if chance.random() < _LEFT_OUT:
        words[:2] = ["a"]
    if chance.random() > _LEFT_OUT:
        words.append(_moving(thing, chance))
    return " ".join(words)


def _moving(thing: Thing, chance: Random) -> str:
    motion = chance.choice(MOTIONS[thing.motion])
    speeds = SPEEDS[thing.speed] if thing.motion != "still" else ()
    if not speeds or chance.random() < _LEFT_OUT:
        return motion
    speed = chance.choice(speeds)
    return chance.choice((f"{motion} {speed}", f"{speed} {motion}"))


def _bare(scene: Scene, chance: Random) -> list[str]:
    """Single attributes of a scene."""
    thing = chance.choice(scene.things)
    shape = chance.choice(SHAPES[thing.shape])
    return [
        thing.colour,
        shape,
        f"{thing.colour} {shape}",
        chance.choice(MOTIONS[thing.motion]),
        f"{scene.background} background",
    ]
