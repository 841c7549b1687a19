# SPDX-License-Identifier: Apache-2.0
"""`vmcu audio`: the tables of a front end, and the features of recordings."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..audio.settings import Settings
from ..exits import EXIT_DONE
from ..values import c_name, finite
from .options import Subparsers
from .parser import OUTPUT, titled

HELP = {
    "sample_rate": ("HZ", "samples per second"),
    "window_ms": ("MS", "length of a window"),
    "hop_ms": ("MS", "distance between windows"),
    "channels": ("N", "features in a row"),
    "lower_hz": ("HZ", "lowest frequency"),
    "upper_hz": ("HZ", "highest frequency"),
    "smoothing_bits": ("N", "fraction bits of the noise estimate"),
    "even_smoothing": ("X", "noise smoothing of channels 0, 2, ..."),
    "odd_smoothing": ("X", "noise smoothing of the other channels"),
    "least_signal": ("X", "share of the signal that is always kept"),
    "pcan": ("", "normalise the gain of each channel by its noise"),
    "pcan_strength": ("X", "exponent of the noise in that gain"),
    "pcan_offset": ("X", "offset added to the noise"),
    "pcan_gain_bits": ("N", "gain bits without noise"),
    "log": ("", "take logarithms"),
    "log_shift": ("N", "fraction bits of a logarithm"),
}


EXAMPLES = (
    ("-o tables", "front_end.c and front_end.h"),
    ("--wav recording.wav -o features", "features of a recording, to train with"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    audio = commands.add_parser(
        "audio",
        help="write an audio front end, or features to train with",
        description="Writes NAME.c and NAME.h, the tables of an audio front end for "
        "CONFIG_VMCU_AUDIO; with --wav, writes the features of a recording instead. Features equal "
        "those of TensorFlow Lite Micro's micro frontend; the defaults are those of micro_speech "
        "and microWakeWord.",
    )
    output = titled(audio, OUTPUT)
    output.add_argument("--name", type=c_name, default="front_end", help="C name of the tables")
    output.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder (default: here)"
    )
    audio.add_argument(
        "--wav",
        type=Path,
        metavar="FILE",
        help="write NAME.npy, uint16 (rows, channels), the features of a recording: 16-bit "
        "samples, one channel, at the sample rate",
    )
    front_end = titled(audio, "front end")
    for field in fields(Settings):
        metavar, text = HELP[field.name]
        option = f"--{field.name.replace('_', '-')}"
        usual: Any = field.default
        if isinstance(usual, bool):
            front_end.add_argument(
                option, action=argparse.BooleanOptionalAction, default=usual, help=text
            )
        else:
            front_end.add_argument(
                option,
                type=finite if isinstance(usual, float) else type(usual),
                default=usual,
                metavar=metavar,
                help=f"{text} (default {usual:g})",
            )
    return audio


def run(args: argparse.Namespace) -> int:
    from ..audio import tables_c
    from ..emit.names import check_name
    from ..emit.output import write

    settings = Settings(**{field.name: getattr(args, field.name) for field in fields(Settings)})
    if args.wav:
        for path in write({f"{args.name}.npy": features(settings, args.wav)}, args.output):
            print(f"wrote {path}")
        return EXIT_DONE
    check_name(args.name)
    command = " ".join(["vmcu audio", *chosen(settings)])
    for path in write(tables_c.files(settings, args.name, command), args.output):
        print(f"wrote {path}")
    print(
        f"{settings.channels} channels every {settings.hop} samples; bytes: "
        f"flash {tables_c.flash_bytes(settings):,}, state {tables_c.state_bytes(settings):,}, "
        f"work memory of a call {tables_c.work_bytes(settings):,}"
    )
    return EXIT_DONE


def chosen(settings: Settings) -> list[str]:
    """The options that are not as usual."""
    options = []
    for field in fields(Settings):
        value, name = getattr(settings, field.name), field.name.replace("_", "-")
        if value != field.default:
            options += [f"--no-{name}"] if value is False else [f"--{name}", f"{value:g}"]
    return options


def features(settings: Settings, path: Path) -> bytes:
    """An .npy file of what a front end makes of a recording."""
    import io

    import numpy as np

    from ..audio.front_end import FrontEnd
    from ..audio.recording import samples_of

    file = io.BytesIO()
    np.save(file, FrontEnd(settings).process(samples_of(path, settings.sample_rate)))
    return file.getvalue()
