# SPDX-License-Identifier: Apache-2.0
"""`vmcu audio`: the tables of a front end, and the features of recordings."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..audio.settings import Settings
from ..exits import EXIT_DONE
from .options import Subparsers, c_name, finite

HELP = {
    "sample_rate": ("HZ", "samples a second"),
    "window_ms": ("MS", "of a window"),
    "hop_ms": ("MS", "from one window to the next"),
    "channels": ("N", "numbers in a row"),
    "lower_hz": ("HZ", "where the band begins"),
    "upper_hz": ("HZ", "where it ends"),
    "smoothing_bits": ("N", "fraction of the noise's estimate"),
    "even_smoothing": ("X", "how fast channels 0, 2, ... learn the noise"),
    "odd_smoothing": ("X", "how fast the others do"),
    "least_signal": ("X", "part of a signal that is never taken for noise"),
    "pcan": ("", "gain by the noise of each channel"),
    "pcan_strength": ("X", "power of the noise that a signal is divided by"),
    "pcan_offset": ("X", "added to the noise"),
    "pcan_gain_bits": ("N", "of the gain where there is no noise"),
    "log": ("", "logarithms"),
    "log_shift": ("N", "bits of a logarithm's fraction"),
}


def add(commands: Subparsers) -> argparse.ArgumentParser:
    audio = commands.add_parser(
        "audio",
        help="write the tables of an audio front end, or compute features of a recording",
        description="Sound to rows of features as TensorFlow Lite Micro's micro frontend has them; "
        "the defaults are those of micro_speech and microWakeWord. Writes NAME.c and NAME.h for "
        "CONFIG_VMCU_AUDIO, and with --wav the features of a recording, to train with.",
    )
    audio.add_argument("--name", type=c_name, default="front_end", help="C name of the tables")
    audio.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder (default: here)"
    )
    audio.add_argument(
        "--wav",
        type=Path,
        metavar="FILE",
        help="write NAME.npy, uint16 (rows, channels), in place of tables: of 16-bit samples, one "
        "channel, at the sample rate",
    )
    for field in fields(Settings):
        metavar, text = HELP[field.name]
        option = f"--{field.name.replace('_', '-')}"
        usual: Any = field.default
        if isinstance(usual, bool):
            audio.add_argument(
                option, action=argparse.BooleanOptionalAction, default=usual, help=text
            )
        else:
            audio.add_argument(
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
        f"{tables_c.flash_bytes(settings):,} of flash, {tables_c.state_bytes(settings):,} kept, "
        f"{tables_c.work_bytes(settings):,} within a call"
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
