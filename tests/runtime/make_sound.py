# SPDX-License-Identifier: Apache-2.0
"""Writes sound.h: a little sound, and the rows of features that are to come of it. CMake
runs it with python/ and tests/python in PYTHONPATH."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from builders.sounds import speech
from vmcu_tools.audio.front_end import FrontEnd

SAMPLES = 2400


def array(kind: str, name: str, values: np.ndarray) -> str:
    flat = values.ravel().tolist()
    lines = [", ".join(map(str, flat[at : at + 15])) for at in range(0, len(flat), 15)]
    text = "".join(f"\t{line},\n" for line in lines)
    return f"static const {kind} {name}[] = {{\n{text}}};\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    # Where syllables begin.
    samples = speech(1)[4000 : 4000 + SAMPLES]
    rows = FrontEnd().process(samples)
    text = array("int16_t", "sound", samples) + "\n" + array("uint16_t", "sound_rows", rows)
    (parser.parse_args().output / "sound.h").write_text(
        f"/* Written by make_sound.py. */\n\n{text}", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
