# SPDX-License-Identifier: Apache-2.0
"""Prints what compression would save of networks' constants, and what decoding them costs.

    python benchmarks/compression/run.py --models DIR [--write FILE]

A Huffman code of bytes, decoded by a table: the fastest decoder of a code that comes near the
entropy. Its cycles are those of the timing rules of a Cortex-M4.
"""

from __future__ import annotations

import heapq
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / "paper")]

from counted import counted  # noqa: E402
from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_bench.cycles.model import board  # noqa: E402
from vmcu_bench.runners.base import RunnerError  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.plan.weights import layouts_of  # noqa: E402

HERE = Path(__file__).parent
MACHINE = "qemu:m4"
# Of the longest code, which its table has an entry for each value of.
CODE_BITS = 12
# Bytes that are decoded for a network's cycles.
MOST = 32768
MEGAHERTZ = 100
NETWORKS = (
    "mlperf-tiny-ad",
    "mlperf-tiny-kws",
    "mlperf-tiny-resnet8",
    "mlperf-tiny-vww",
    "mlperf-tiny-sww",
    "mcunet-vww-5fps",
    "mcunet-imagenet-320kb",
)
COLUMNS = (
    *("network", "bytes", "entropy", "Huffman code", "cycles a byte, decoded"),
    f"MB/s below which it pays at {MEGAHERTZ} MHz",
)


@dataclass(frozen=True)
class Code:
    """Of bytes: the length of each byte's code, 0 for a byte that does not occur."""

    lengths: np.ndarray

    def codes(self) -> dict[int, int]:
        """Canonical codes by byte."""
        found, code, before = {}, 0, 0
        order = sorted(np.flatnonzero(self.lengths), key=lambda byte: (self.lengths[byte], byte))
        for byte in order:
            code <<= int(self.lengths[byte]) - before
            before = int(self.lengths[byte])
            found[int(byte)] = code
            code += 1
        return found

    def table(self) -> np.ndarray:
        """By the next CODE_BITS bits: the byte, and 256 times the length of its code."""
        found = np.zeros(1 << CODE_BITS, np.uint16)
        for byte, code in self.codes().items():
            length = int(self.lengths[byte])
            rest = CODE_BITS - length
            found[code << rest : (code + 1) << rest] = byte + 256 * length
        return found

    def encoded(self, data: np.ndarray) -> np.ndarray:
        """Halfwords whose upper bits come first, and two more that a decoder may read."""
        codes = self.codes()
        text = "".join(f"{codes[byte]:0{self.lengths[byte]}b}" for byte in data.tolist())
        text += "0" * (-len(text) % 16 + 32)
        return np.array([int(text[at : at + 16], 2) for at in range(0, len(text), 16)], np.uint16)


def code_of(data: np.ndarray) -> Code:
    """The shortest code of at most CODE_BITS bits (package-merge: Larmore and Hirschberg, A fast
    algorithm for optimal length-limited Huffman codes, 1990)."""
    counts = np.bincount(data, minlength=256)
    leaves = sorted((int(counts[byte]), (int(byte),)) for byte in np.flatnonzero(counts))
    packages: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(CODE_BITS):
        merged = list(heapq.merge(leaves, packages))
        pairs = zip(merged[::2], merged[1::2], strict=False)
        packages = [(a[0] + b[0], a[1] + b[1]) for a, b in pairs]
    chosen = [byte for _, package in packages[: len(leaves) - 1] for byte in package]
    return Code(np.bincount(np.array(chosen), minlength=256))


def entropy(data: np.ndarray) -> float:
    """Bits of a byte."""
    counts = np.bincount(data)
    share = counts[counts > 0] / data.size
    return float(-(share * np.log2(share)).sum())


def array(name: str, values: np.ndarray) -> str:
    return f"static const uint16_t {name}[] = {{{', '.join(map(str, values.tolist()))}}};\n"


def decoding_cycles(code: Code, data: np.ndarray) -> float:
    """Cycles a byte on an emulated core. RunnerError if it decodes other bytes."""
    machine = board(MACHINE)
    with tempfile.TemporaryDirectory(prefix="vmcu-compression-") as name:
        folder = Path(name)
        text = f"#include <stdint.h>\n#define COUNT {data.size}\n#define CODE_BITS {CODE_BITS}\n"
        text += array("table", code.table()) + array("coded", code.encoded(data))
        (folder / "code.h").write_text(text)
        flags = "-O2", "-Wl,--gc-sections"
        _, spent = counted(machine, folder, [HERE / "main.c"], "decode", flags)
        if (folder / "out.bin").read_bytes() != data.tobytes():
            raise RunnerError(f"{MACHINE}: the decoded bytes are wrong")
    return spent.total / data.size


def row(file: Path) -> tuple[str, ...]:
    layouts = layouts_of(compile_model(file))
    data = np.frombuffer(b"".join(layout.data for layout in layouts), np.uint8)
    code = code_of(data)
    coded = float((np.bincount(data, minlength=256) * code.lengths).sum() / data.size)
    cycles = decoding_cycles(code, data[:MOST])
    pays = MEGAHERTZ * (1 - coded / 8) / cycles
    return (
        file.stem,
        f"{data.size:,}",
        f"{entropy(data) / 8:.0%}",
        f"{coded / 8:.0%}",
        f"{cycles:.1f}",
        f"{pays:.1f}",
    )


def compression(folder: Path, networks: Sequence[str] = NETWORKS) -> Table:
    files = [folder / f"{name}.tflite" for name in networks]
    rows = tuple(map(row, files))
    return Table("Compression", COLUMNS, rows, behind=Behind(hashes(files), (GCC, QEMU)))


def command(name: str) -> str:
    return "python benchmarks/compression/run.py --models DIR"


if __name__ == "__main__":
    show_of_models(__doc__, {"compression": compression}, command)
