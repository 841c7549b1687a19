# SPDX-License-Identifier: Apache-2.0
"""Prints what a hop of the audio front end takes on emulated cores.

    python benchmarks/audio/run.py [TABLE...] [--write FILE]

A second of sound like speech, a hop a call; rows are compared with the front end's meaning, and
cycles are those of the timing rules.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / "paper"), str(ROOT / "tests" / "python")]

from builders.sounds import speech  # noqa: E402
from manifests import GCC, QEMU, Behind  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_tools import paths  # noqa: E402
from vmcu_tools.audio import tables_c  # noqa: E402
from vmcu_tools.audio.front_end import FrontEnd  # noqa: E402
from vmcu_tools.audio.settings import Settings  # noqa: E402
from vmcu_tools.bench.model import board, cycles_of  # noqa: E402
from vmcu_tools.image.elf import Elf  # noqa: E402
from vmcu_tools.runners.base import RunnerError  # noqa: E402
from vmcu_tools.runners.counting import CountingRunner, Markers, blocks_of  # noqa: E402

HERE = Path(__file__).parent
TARGETS = ("qemu:m3", "qemu:m4")
SECONDS = 1


def hop(target: str, settings: Settings) -> tuple[float, float]:
    """Instructions and cycles of a row, the mean of all calls. RunnerError where one is wrong."""
    machine = board(target)
    samples = speech(SECONDS)
    with tempfile.TemporaryDirectory(prefix="vmcu-audio-") as name:
        folder = Path(name)
        for file, text in tables_c.files(settings, "front_end", "vmcu audio").items():
            (folder / file).write_text(text)
        (folder / "samples.bin").write_bytes(samples.astype("<i2").tobytes())
        image = folder / "audio.elf"
        surroundings = [source for source in machine.sources() if source.stem != "io_semihosting"]
        library = sorted((paths.runtime() / "audio").glob("*.c"))
        sources = [HERE / "main.c", folder / "front_end.c", *library, *surroundings]
        flags = ["-O2", f"-I{folder}", *map(str, sources), *machine.link_flags()]
        machine.gcc([*flags, "-o", str(image)], folder)
        entry = Elf(image).find("take_hop")
        counting = CountingRunner.of(machine, Markers((entry.address & ~1,)))
        _, counts = counting.count(folder, lambda runner: runner._start(image))
        (spent,) = cycles_of(machine, image, blocks_of(folder), 1)
        found = np.frombuffer((folder / "features.bin").read_bytes(), "<u2")
    expected = FrontEnd(settings).process(samples)
    if not np.array_equal(found.reshape(-1, settings.channels), expected):
        raise RunnerError(f"{target}: rows of features are wrong")
    return counts[0].instructions / len(expected), spent.total / len(expected)


def front_end() -> Table:
    settings = Settings()
    rows = []
    for target in TARGETS:
        instructions, cycles = hop(target, settings)
        rows.append((target, f"{instructions:,.0f}", f"{cycles:,.0f}"))
    about = (
        f"{settings.channels} channels of {settings.window_ms} ms every {settings.hop_ms} ms at "
        f"{settings.sample_rate:,} Hz. Bytes: {tables_c.flash_bytes(settings):,} of tables, "
        f"{tables_c.state_bytes(settings):,} of RAM kept, {tables_c.work_bytes(settings):,} within "
        "a call. Cycles are modelled.",
    )
    return Table(
        "Audio front end",
        ("target", "instructions a hop", "cycles a hop"),
        tuple(rows),
        about,
        Behind(tools=(GCC, QEMU)),
    )


TABLES = {"front-end": front_end}


def command(name: str) -> str:
    return f"python benchmarks/audio/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, [*TABLES])
    show(parser, parser.parse_args(argv), TABLES, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
