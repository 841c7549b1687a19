# SPDX-License-Identifier: Apache-2.0
"""Old spellings of options, which work until version 0.4: delete this file and its call in cli.py
then. Each prints a note on standard error."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Settings of `vmcu audio` that were options.
_NUMBERS = (
    *("sample-rate", "window-ms", "hop-ms", "channels", "lower-hz", "upper-hz", "smoothing-bits"),
    *("even-smoothing", "odd-smoothing", "least-signal", "pcan-strength", "pcan-offset"),
    *("pcan-gain-bits", "log-shift"),
)
# Old options by command, "" for all: a pattern of the value, empty if there is none, and what the
# option is now, with {} for the value; empty if it has no effect.
OPTIONS = (
    ("build", "--flash", ".+", "--flash-bus {}"),
    ("bench", "--flash", ".+", "--flash-bus {}"),
    ("run", "--board", ".+", "--on zephyr:{}"),
    ("verify", "--board", r"(qemu|native)_\S+", "--on zephyr:{}"),
    ("bench", "--board", r"(qemu|native)_\S+", "--on zephyr:{}"),
    ("train-head", "--rate", ".+", "--learning-rate {}"),
    ("quantize", "--layers", ".+", "--all"),
    ("quantize", "--group", r"\d+", "--weights int4:{}"),
    ("inspect", "--markdown", "", "--markdown -"),
    ("", "--solver-seconds", ".+", ""),
    ("", "--plan-seconds", ".+", ""),
    ("", "--tile-cost", r"\d{3,}.*", "--effort long"),
    ("", "--tile-cost", ".+", ""),
    ("place", "--capacity", ".+", "--ram {}"),
    ("place", "--limit", ".+", "--ram {}"),
    ("build", "--svg", ".+", "--picture {}"),
    ("build", "--png", ".+", "--picture {}"),
    *(("audio", f"--{one}", ".+", f"--set {one.replace('-', '_')}={{}}") for one in _NUMBERS),
    *(("audio", f"--{one}", "", f"--set {one}=on") for one in ("log", "pcan")),
    *(("audio", f"--no-{one}", "", f"--set {one}=off") for one in ("log", "pcan")),
)


def rewritten(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """A call in today's spellings, and what to tell of the old ones in it."""
    rewritten_words: list[str] = []
    notes: list[str] = []
    number = 0
    while number < len(words) and words[number] != "--":
        option, is_joined, value = words[number].partition("=")
        after = words[number + 1 : number + 2]
        if not is_joined and after and (after == ["-"] or not after[0].startswith("-")):
            value = after[0]
        for command, old, pattern, template in OPTIONS:
            if command in ("", words[0]) and old == option and re.fullmatch(pattern, value):
                rewritten_words += [part.format(value) for part in template.split()]
                now = template.format(value)
                was = f"{old} {value}".rstrip()
                notes.append(f"'{was}' is now '{now}'" if now else f"'{was}' has no effect")
                number += 1 if is_joined or not value else 2
                break
        else:
            rewritten_words.append(words[number])
            number += 1
    return [*rewritten_words, *words[number:]], notes
