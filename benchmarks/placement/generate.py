# SPDX-License-Identifier: Apache-2.0
"""Writes placement problems whose optimum is known: a rectangle of bytes by time, cut to pieces.

    python benchmarks/placement/generate.py DIR [--seeds 3] [--family NAME]

Uncut, the pieces fill the rectangle, so its height is enough, and with pieces alive at some
moment adding up to it, it is also needed. The optimum is in the file's name: NAME.OPTIMUM.csv.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

CAPACITY = 1 << 20
COUNTS = (150, 200, 250, 300, 350, 400, 450)

Rectangle = tuple[int, int, int, int]  # lower, upper, bottom, top


@dataclass(frozen=True)
class Family:
    """`times`: moments, few of them make many buffers start together. `grain`: of sizes.

    `pinwheels`: how often five pieces are cut so that no straight cut tells them apart. `upright`:
    above 1, cuts prefer to divide time, below, bytes. `dropped`: the share of pieces left out,
    none of those alive at one moment.
    """

    times: int = 2000
    grain: int = 1024
    pinwheels: float = 0.3
    upright: float = 1.0
    dropped: float = 0.0


FAMILIES = {
    "guillotine": Family(pinwheels=0),
    "pinwheel": Family(),
    "long": Family(pinwheels=0.1, upright=0.3),
    "short": Family(pinwheels=0.1, upright=4),
    "loose": Family(dropped=0.3),
    "few-times": Family(times=40, pinwheels=0.2, dropped=0.05),
    "coarse": Family(times=64, grain=16384),
    "holes": Family(dropped=0.1),
}


def cut(count: int, family: Family, dice: random.Random) -> list[Rectangle]:
    """At least `count` pieces of the whole, larger ones cut more often."""
    top = CAPACITY // family.grain
    pieces: list[Rectangle] = [(0, family.times, 0, top)]
    while len(pieces) < count:
        areas = [(upper - lower) * (high - low) for lower, upper, low, high in pieces]
        at = dice.choices(range(len(pieces)), areas)[0]
        lower, upper, low, high = piece = pieces[at]
        width, height = upper - lower, high - low
        if min(width, height) >= 3 and dice.random() < family.pinwheels:
            pieces[at : at + 1] = pinwheel(piece, dice)
            continue
        across = family.upright * width / family.times
        if dice.random() * (across + height / top) < across:
            if width > 1:
                x = dice.randrange(lower + 1, upper)
                pieces[at : at + 1] = [(lower, x, low, high), (x, upper, low, high)]
        elif height > 1:
            y = dice.randrange(low + 1, high)
            pieces[at : at + 1] = [(lower, upper, low, y), (lower, upper, y, high)]
    return pieces


def pinwheel(piece: Rectangle, dice: random.Random) -> list[Rectangle]:
    """Four pieces around a fifth, one way round or the other."""
    lower, upper, low, high = piece
    left, right = sorted(dice.sample(range(lower + 1, upper), 2))
    below, above = sorted(dice.sample(range(low + 1, high), 2))
    middle = (left, right, below, above)
    if dice.random() < 0.5:
        return [
            (lower, left, low, above),
            (lower, right, above, high),
            (right, upper, below, high),
            (left, upper, low, below),
            middle,
        ]
    return [
        (lower, right, low, below),
        (right, upper, low, above),
        (left, upper, above, high),
        (lower, left, below, high),
        middle,
    ]


def generate(family: Family, count: int, seed: int) -> list[tuple[int, int, int]]:
    """Buffers (lower, upper, size) whose optimum is CAPACITY, in no order."""
    dice = random.Random(seed)
    pieces = cut(count, family, dice)
    full = dice.choice(pieces)[0]
    kept = [p for p in pieces if p[0] <= full < p[1] or dice.random() >= family.dropped]
    dice.shuffle(kept)
    return [(lower, upper, (high - low) * family.grain) for lower, upper, low, high in kept]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("directory", type=Path)
    options.add_argument("--seeds", type=int, default=3, help="problems per family (default 3)")
    options.add_argument("--family", choices=FAMILIES, action="append")
    args = options.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    for name in args.family or FAMILIES:
        for seed in range(args.seeds):
            count = COUNTS[(5 * seed + 1) % len(COUNTS)]
            buffers = generate(FAMILIES[name], count, seed)
            lines = [
                f"{number},{lower},{upper},{size}"
                for number, (lower, upper, size) in enumerate(buffers)
            ]
            path = args.directory / f"{name}-{seed}.{CAPACITY}.csv"
            path.write_text("\n".join(["id,lower,upper,size", *lines]) + "\n")
            print(path)


if __name__ == "__main__":
    main()
