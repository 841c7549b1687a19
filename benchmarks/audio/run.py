# SPDX-License-Identifier: Apache-2.0
"""Prints what a hop of the audio front end takes on emulated cores.

    python benchmarks/audio/run.py [TABLE...] [--write FILE]

A second of sound like speech, a hop a call; rows are compared with the front end's meaning, and
cycles are those of the timing rules.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / "paper"), str(ROOT / "tests" / "python")]

from builders.sounds import sounds, speech  # noqa: E402
from counted import counted  # noqa: E402
from manifests import GCC, QEMU, Behind  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_bench.cycles.model import board  # noqa: E402
from vmcu_bench.runners.base import RunnerError  # noqa: E402
from vmcu_bench.runners.qemu import QemuRunner  # noqa: E402
from vmcu_tools import paths  # noqa: E402
from vmcu_tools.audio import tables_c  # noqa: E402
from vmcu_tools.audio.front_end import FrontEnd  # noqa: E402
from vmcu_tools.audio.settings import Settings  # noqa: E402

HERE = Path(__file__).parent
TARGETS = ("qemu:m3", "qemu:m4")
SECONDS = 1
# Where a copy of CMSIS-DSP is, and CMSIS' folder Core, of the tables that need them.
CMSIS_DSP, CMSIS_CORE = "VMCU_CMSIS_DSP", "VMCU_CMSIS_CORE"
TRANSFORM = ("arm_cfft_q15", "arm_cfft_radix4_q15", "arm_bitreversal2")
CONSTANTS = ("arm_common_tables", "arm_const_structs")


@dataclass(frozen=True)
class Hops:
    """Rows of features uint16 (rows, channels), and what one takes, the mean of all calls."""

    features: np.ndarray
    instructions: float
    cycles: float


@dataclass(frozen=True)
class Cmsis:
    """CMSIS-DSP's transform: flags of who includes its headers, and its sources."""

    flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @staticmethod
    def found() -> Cmsis:
        """Of the copy that the environment names. RunnerError where there is none."""
        folder, core = (os.environ.get(name, "") for name in (CMSIS_DSP, CMSIS_CORE))
        if not folder or not core:
            raise RunnerError(f"set {CMSIS_DSP}, and {CMSIS_CORE} to CMSIS' folder Core")
        source = Path(folder) / "Source"
        files = [source / "TransformFunctions" / f"{name}.c" for name in TRANSFORM]
        files += [source / "CommonTables" / f"{name}.c" for name in CONSTANTS]
        headers = (
            Path(folder) / "Include",
            Path(folder) / "PrivateInclude",
            Path(core) / "Include",
        )
        flags = (f"-D{tables_c.SWITCH}", "-DDISABLEFLOAT16", *(f"-isystem{one}" for one in headers))
        return Cmsis(flags, tuple(map(str, files)))

    def objects(self, machine: QemuRunner, folder: Path) -> list[str]:
        """Compiled as a library of a system with memcpy(), by which it reads words."""
        if self.sources:
            machine.gcc(["-c", "-w", "-fhosted", *self.flags, *self.sources], folder)
        return [str(folder / f"{Path(source).stem}.o") for source in self.sources]


NONE = Cmsis()


def hops(target: str, settings: Settings, samples: np.ndarray, cmsis: Cmsis = NONE) -> Hops:
    """A hop a call on an emulated core."""
    machine = board(target)
    with tempfile.TemporaryDirectory(prefix="vmcu-audio-") as name:
        folder = Path(name)
        for file, text in tables_c.files(settings, "front_end", "vmcu audio").items():
            (folder / file).write_text(text)
        (folder / "samples.bin").write_bytes(samples.astype("<i2").tobytes())
        library = sorted((paths.runtime() / "audio").glob("*.c"))
        sources = HERE / "main.c", folder / "front_end.c", *library
        flags = ["-O2", *cmsis.flags, *cmsis.objects(machine, folder), "-Wl,--gc-sections"]
        counts, spent = counted(machine, folder, sources, "take_hop", flags)
        found = np.frombuffer((folder / "features.bin").read_bytes(), "<u2")
    rows = found.reshape(-1, settings.channels)
    return Hops(rows, counts.instructions / len(rows), spent.total / len(rows))


def equal(target: str, settings: Settings) -> Hops:
    """What a hop takes whose rows are the front end's meaning. RunnerError where one is not."""
    samples = speech(SECONDS)
    found = hops(target, settings, samples)
    if not np.array_equal(found.features, FrontEnd(settings).process(samples)):
        raise RunnerError(f"{target}: rows of features are wrong")
    return found


def front_end() -> Table:
    settings = Settings()
    rows = []
    for target in TARGETS:
        found = equal(target, settings)
        rows.append((target, f"{found.instructions:,.0f}", f"{found.cycles:,.0f}"))
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


def with_cmsis() -> Table:
    """Beside CMSIS-DSP's transform."""
    settings, rows = Settings(), []
    for target in TARGETS:
        own = equal(target, settings)
        other = hops(target, settings, speech(SECONDS), Cmsis.found())
        counts = own.instructions, other.instructions, own.cycles, other.cycles
        rows.append((target, *(f"{count:,.0f}" for count in counts)))
    head = ("target", "instructions a hop", "with CMSIS-DSP", "cycles a hop", "with CMSIS-DSP")
    behind = Behind(tools=(GCC, QEMU))
    return Table("CMSIS-DSP's transform", head, tuple(rows), ("Cycles are modelled.",), behind)


def near() -> Table:
    """How far features are from those of TensorFlow Lite Micro."""
    settings, rows = Settings(), []
    for kind, samples in sounds(SECONDS).items():
        found = hops("qemu:m4", settings, samples, Cmsis.found()).features.astype(np.int64)
        wanted = FrontEnd(settings).process(samples).astype(np.int64)
        off = np.abs(found - wanted)
        as_bytes = _bytes(found) != _bytes(wanted)
        shares = f"{100 * (off > 0).mean():.1f} %", f"{100 * as_bytes.mean():.1f} %"
        rows.append((kind, shares[0], f"{off.mean():.2f}", f"{off.max()}", shares[1]))
    head = ("sound", "features that differ", "by, on average", "at most", "bytes that differ")
    said = "A second of each on qemu:m4; bytes are those of vmcu_audio_bytes()."
    behind = Behind(tools=(GCC, QEMU))
    return Table("Features with CMSIS-DSP's transform", head, tuple(rows), (said,), behind)


def _bytes(features: np.ndarray) -> np.ndarray:
    """As vmcu_audio_bytes() has them."""
    return np.minimum((features * 256 + 333) // 666, 255)


TABLES = {"front-end": front_end, "cmsis-dsp": with_cmsis, "cmsis-dsp-features": near}


def command(name: str) -> str:
    return f"python benchmarks/audio/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, [*TABLES])
    show(parser, parser.parse_args(argv), TABLES, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
