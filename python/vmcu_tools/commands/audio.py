# SPDX-License-Identifier: Apache-2.0
"""`vmcu audio`: the tables of a front end, and the features of recordings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..audio.settings import Settings
from ..errors import suggestion
from ..exits import EXIT_DONE
from ..values import c_name, count, finite
from .options import Subparsers
from .parser import OUTPUT, titled

SWITCH = ("off", "on")
EXAMPLES = (
    ("-o tables", "front_end.c and front_end.h"),
    ("--set sample_rate=8000 --set upper_hz=3800", "for sounds of 8 kHz"),
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
    usual = ", ".join(f"{name}={text_of(value)}" for name, value in vars(Settings()).items())
    audio.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"change a setting; repeatable (default: {usual}); `vmcu help audio.md` explains them",
    )
    return audio


def run(args: argparse.Namespace) -> int:
    from ..audio import tables_c
    from ..emit.names import check_name
    from ..emit.output import write

    settings = Settings(**dict(args.set))
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


def setting(text: str) -> tuple[str, Any]:
    """'upper_hz=3800' or 'log=off' to a setting and its value."""
    name, _, value = text.partition("=")
    usual = vars(Settings()).get(name)
    if usual is None:
        hint = suggestion(name, vars(Settings()), "vmcu help audio")
        raise argparse.ArgumentTypeError(f"there is no setting '{name}'{hint}")
    if isinstance(usual, bool):
        if value not in SWITCH:
            raise argparse.ArgumentTypeError(f"'{value}' is not on or off")
        return name, value == SWITCH[True]
    if isinstance(usual, float):
        return name, finite(value)
    return name, count(value)


def text_of(value: float) -> str:
    """A value as setting() reads it."""
    return SWITCH[value] if isinstance(value, bool) else f"{value:g}"


def chosen(settings: Settings) -> list[str]:
    """The options that are not as usual."""
    usual = vars(Settings())
    return [
        word
        for name, value in vars(settings).items()
        if value != usual[name]
        for word in ("--set", f"{name}={text_of(value)}")
    ]


def features(settings: Settings, path: Path) -> bytes:
    """An .npy file of what a front end makes of a recording."""
    import io

    import numpy as np

    from ..audio.front_end import FrontEnd
    from ..audio.recording import samples_of

    file = io.BytesIO()
    np.save(file, FrontEnd(settings).process(samples_of(path, settings.sample_rate)))
    return file.getvalue()
