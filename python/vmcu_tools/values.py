# SPDX-License-Identifier: Apache-2.0
"""The values of options: each function converts what a user wrote."""

from __future__ import annotations

import argparse
import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import suggestion
from .plan.chunks import WeightStore
from .plan.pools import MOST_OF_SEVERAL, MOST_POOLS, Region

if TYPE_CHECKING:
    from .boards.flash import SerialFlash

CONTAINER = ".vmcu"
PICTURES = (".svg", ".png")
# What `vmcu bench` counts on.
COUNTED_ON = "qemu:m4"
# What the counter has room for, of code and constants together.
MOST_LINES = 2048
UNITS = {"": 1, "k": 1024, "m": 1024 * 1024, "g": 1 << 30}


def is_container(path: Path | None) -> bool:
    """True for a file that is named as containers are."""
    return path is not None and path.suffix == CONTAINER


def byte_count(text: str) -> int:
    """'65536', '64K', '64 KB', '64KiB', '1.5K' or '0.5M' to bytes; K is 1024. A part of a byte is
    refused, not rounded, so that no limit differs from the one that was written."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmg])i?)?b?", text.strip().lower(), re.ASCII)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a size; write 65536, 64K, 1.5K, 1M or 1G (K is 1024 bytes)"
        )
    size = Fraction(match[1]) * UNITS[match[2] or ""]
    if size.denominator != 1:
        raise argparse.ArgumentTypeError(
            f"'{text}' is {float(size):g} bytes, not a whole number; write {int(size) or 1}"
        )
    return int(size)


def picture(text: str) -> Path:
    """A file of a format that pictures have."""
    if Path(text).suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"'{text}' is not a .svg or .png file")
    return Path(text)


def c_name(text: str) -> str:
    """A name that C accepts as an identifier."""
    if not text.isidentifier() or not text.isascii():
        raise argparse.ArgumentTypeError(f"'{text}' is not a C identifier")
    return text


def banks(text: str) -> list[Region]:
    """'fast=64M,slow=1G:10' to memories of any size, the cheap ones first; without it, an access
    costs as much as there are memories in front."""
    regions: list[Region] = []
    for part in text.split(","):
        match = re.fullmatch(r"([A-Za-z]\w*)=([^:]+)(?::(.+))?", part.strip(), flags=re.ASCII)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"'{part}' is not a memory; write NAME=SIZE or NAME=SIZE:CYCLES"
            )
        name, size, wait = match.groups()
        cycles = float(len(regions)) if wait is None else real(wait, "number of cycles", most=1e6)
        regions.append(Region(name.lower(), byte_count(size), cycles))
    if len({region.name for region in regions}) < len(regions):
        raise argparse.ArgumentTypeError("two memories have the same name")
    if any(before.wait > after.wait for before, after in itertools.pairwise(regions)):
        raise argparse.ArgumentTypeError("name the fast memories before the slow ones")
    return regions


def memories(text: str) -> tuple[Region, ...]:
    """'dtcm=64K,psram=8M:10' to memories of a device."""
    regions = banks(text)
    if len(regions) > MOST_POOLS:
        raise argparse.ArgumentTypeError(f"{len(regions)} memories, the most is {MOST_POOLS}")
    large = next((region for region in regions if region.capacity > MOST_OF_SEVERAL), None)
    if large is not None and len(regions) > 1:
        most = MOST_OF_SEVERAL // UNITS["m"]
        raise argparse.ArgumentTypeError(f"'{large.name}' is larger than {most}M")
    return tuple(regions)


def serial_flash(text: str) -> SerialFlash:
    """'qspi:40MB/s,cache=16K,line=8' to a serial flash; MB is a million bytes, as on datasheets."""
    from .boards.flash import SerialFlash

    bus, _, rest = text.partition(":")
    rate, *options = rest.split(",")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)MB/s", rate.strip(), re.ASCII | re.IGNORECASE)
    sizes = {"cache": 16384, "line": 32}
    for option in options:
        name, _, size = option.partition("=")
        if name not in sizes or not size:
            match = None
            break
        sizes[name] = byte_count(size)
    if not bus.isalnum() or match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no serial flash; write for example qspi:40MB/s,cache=16K,line=8"
        )
    if not 4 <= sizes["line"] <= sizes["cache"] // 2:
        raise argparse.ArgumentTypeError("a line has 4 bytes or more, up to half of the cache")
    if sizes["cache"] // sizes["line"] > MOST_LINES:
        raise argparse.ArgumentTypeError(f"a cache has at most {MOST_LINES:,} lines here")
    return SerialFlash(bus, float(match[1]) * 1e6, sizes["cache"], sizes["line"])


def weight_store(text: str) -> WeightStore:
    """'8MB/s,latency=100us,ram=20K' to a memory with a weights file; MB is a million bytes, as on
    datasheets."""
    rate, *options = text.split(",")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)MB/s", rate.strip(), re.ASCII | re.IGNORECASE)
    latency, ram = 0.0, None
    for option in options:
        name, _, value = option.strip().partition("=")
        time = re.fullmatch(r"(\d+(?:\.\d+)?)us", value, re.ASCII)
        if name == "latency" and time is not None:
            latency = float(time[1]) / 1e6
        elif name == "ram":
            ram = byte_count(value)
        else:
            match = None
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no memory for weights; write for example 8MB/s,latency=100us,ram=20K"
        )
    return WeightStore(float(match[1]) * 1e6, latency, ram)


def count(text: str) -> int:
    """A number of things, from 0 on."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a count")
    return int(text)


def hop(text: str) -> int:
    """Rows by which a window moves, from 1 on."""
    if count(text) == 0:
        raise argparse.ArgumentTypeError("a window that does not move has one answer")
    return int(text)


def worker_count(text: str) -> int:
    """1 or 2."""
    if text not in ("1", "2"):
        raise argparse.ArgumentTypeError("choose 1 or 2 workers")
    return int(text)


def target_name(text: str) -> str:
    """A target of kernels/targets, which are not loaded unless one is asked for."""
    from .kernels.targets import TARGETS

    if text not in TARGETS:
        known = ", ".join(TARGETS)
        hint = suggestion(text, TARGETS, "vmcu help build")
        raise argparse.ArgumentTypeError(f"there is no target '{text}', choose from {known}{hint}")
    return text


def machine(text: str) -> str:
    """The name of a machine as --on has it, of which a part may be the name of a Zephyr board."""
    if not re.fullmatch(r"[\w/@.:+-]+", text, flags=re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}' is not the name of a machine")
    return text


def real(text: str, what: str, least: float = 0.0, most: float = math.inf, unit: str = "") -> float:
    """A number from `least` on and below `most`; `what` names it where it is none."""
    try:
        value = float(text.removesuffix(unit))
    except ValueError:
        value = math.nan
    if not least <= value < most:
        raise argparse.ArgumentTypeError(f"'{text}' is not a {what}")
    return value


# The smallest positive float, and the least one that is a number.
POSITIVE = 5e-324
LEAST = -1.7976931348623157e308


def finite(text: str) -> float:
    """Any number but infinity and NaN."""
    return real(text, "number", LEAST)


def seconds(text: str) -> float:
    """The time limit of a solver, in seconds."""
    return real(text, "number of seconds", POSITIVE, 1e6)


def learning_rate(text: str) -> float:
    """The size of a step of gradient descent."""
    return real(text, "learning rate", POSITIVE, 1e3)


def percentage(text: str) -> float:
    """'8' or '8%' to 8.0."""
    return real(text, "percentage", most=1e6, unit="%")


def word(text: str) -> int:
    """A number of 32 bits."""
    if count(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"'{text}' is more than 4294967295")
    return int(text)
