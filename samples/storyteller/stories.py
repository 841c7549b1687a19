# SPDX-License-Identifier: Apache-2.0
"""Stories from a small grammar, as numbers of words."""

from __future__ import annotations

import numpy as np

END = "<end>"
_HEROES = {
    "she": ("anna", "emma", "lily", "mia", "rosie", "zoe"),
    "he": ("ben", "finn", "leo", "max", "sam", "tom"),
}
_ANIMALS = [
    "bear",
    "bird",
    "cat",
    "cow",
    "dog",
    "duck",
    "fox",
    "frog",
    "hen",
    "horse",
    "mouse",
    "owl",
    "pig",
    "rabbit",
    "turtle",
    "wolf",
]
_KINDS = [
    "big",
    "brave",
    "clever",
    "funny",
    "gentle",
    "kind",
    "little",
    "old",
    "quiet",
    "shy",
    "small",
    "young",
]
_PLACES = [
    "barn",
    "cave",
    "field",
    "forest",
    "garden",
    "house",
    "meadow",
    "mountain",
    "park",
    "river",
    "valley",
    "village",
]
_THINGS = [
    "ball",
    "bell",
    "boat",
    "book",
    "box",
    "coin",
    "drum",
    "flower",
    "hat",
    "kite",
    "lamp",
    "ring",
    "shell",
    "stone",
]
_COLOURS = [
    "black",
    "blue",
    "brown",
    "golden",
    "green",
    "orange",
    "pink",
    "purple",
    "red",
    "silver",
    "white",
    "yellow",
]
_ACTS = [
    "climb",
    "dance",
    "draw",
    "hide",
    "jump",
    "paint",
    "play",
    "read",
    "run",
    "sing",
    "sleep",
    "swim",
]
_TIMES = ["day", "evening", "morning", "night"]
_GLAD = ["excited", "glad", "happy", "proud"]
_SAD = ["angry", "lonely", "sad", "tired"]
_WEATHER = ["cold", "dark", "hot", "rainy", "sunny", "windy"]


def _found(hero: str, friend: str, thing: str, one: str, words: dict[str, str]) -> str:
    return (
        f"{one} found a {words['colour']} {thing} near the {words['place']} . "
        f"{hero} showed the {thing} to {friend} . {friend} was {words['glad']} too . "
        f"they played with the {thing} all {words['time']} ."
    )


def _lost(hero: str, friend: str, thing: str, one: str, words: dict[str, str]) -> str:
    its = {"he": "his", "she": "her"}[one]
    return (
        f"{one} lost {its} {words['colour']} {thing} in the {words['place']} . "
        f"{hero} was {words['sad']} . {friend} helped to look for it . "
        f"at last they saw the {thing} under a tree . {hero} was {words['glad']} ."
    )


def _shared(hero: str, friend: str, thing: str, one: str, words: dict[str, str]) -> str:
    return (
        f"{one} wanted to {words['act']} with {friend} . but {friend} was {words['sad']} . "
        f'" do not cry , " said {hero} . {one} gave {friend} a {words["colour"]} {thing} . '
        f"then {friend} smiled and was {words['glad']} ."
    )


def story(rng: np.random.Generator) -> list[str]:
    """The words of one story, END behind them."""

    def pick(words: tuple[str, ...] | list[str]) -> str:
        return words[rng.integers(len(words))]

    one = pick(list(_HEROES))
    hero, other = pick(_HEROES[one]), pick(list(_HEROES))
    friend = pick([name for name in _HEROES[other] if name != hero])
    animal, companion = pick(_ANIMALS), pick(_ANIMALS)
    groups = {"colour": _COLOURS, "place": _PLACES, "glad": _GLAD, "sad": _SAD}
    groups |= {"time": _TIMES, "act": _ACTS}
    words = {name: pick(group) for name, group in groups.items()}
    plot = (_found, _lost, _shared)[rng.integers(3)]
    text = (
        f"once upon a time there was a {pick(_KINDS)} {animal} named {hero} . "
        f"{hero} liked to {pick(_ACTS)} . one {pick(_WEATHER)} {pick(_TIMES)} {hero} met {friend} "
        f"the {companion} . {plot(hero, friend, pick(_THINGS), one, words)} the end ."
    )
    return [*text.split(), END]


def vocabulary() -> list[str]:
    """All words that a story can have, sorted; the number of a word is its place."""
    rng, words = np.random.default_rng(0), set[str]()
    for _ in range(2000):
        words.update(story(rng))
    return sorted(words)


def stream(count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """`count` stories as numbers, int64."""
    numbers = {word: number for number, word in enumerate(vocabulary())}
    return [np.array([numbers[word] for word in story(rng)]) for _ in range(count)]
