# SPDX-License-Identifier: Apache-2.0
"""Reads damaged files for a while: no crash, no traceback, no hang, no more than 2 GB.

    python tests/fuzz/run.py [--seconds 60] [--seed 0] [--kind onnx] [--keep DIR]

Models up to the optimised graph, arrays as `run --input` reads them, problems of `place`.

Ends with exit code 1 and leaves the file in DIR where something else than one message comes of it.
The same seed reads the same files. target.py is the same for atheris, which looks at coverage.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import arrays
import importers
import mutate
import numpy as np

BYTES = 2 << 30
HANG_SECONDS = 10


class HangError(Exception):
    """A file takes too long."""


def _alarm(number: int, frame: object) -> None:
    raise HangError(f"more than {HANG_SECONDS} s")


@dataclass(frozen=True)
class Kind:
    """A format. read: whether a file is accepted; anything but a UserError comes through."""

    seeds: Callable[[], list[bytes]]
    damage: Callable[[np.random.Generator, bytes], bytes]
    read: Callable[[bytes], bool]


def model(kind: str) -> Kind:
    return Kind(
        lambda: importers.seeds(kind),
        lambda rng, data: mutate.damage(rng, data, kind),
        lambda data: importers.read(data, kind),
    )


KINDS = {
    **{kind: model(kind) for kind in importers.KINDS},
    "npy": Kind(arrays.npy_seeds, arrays.damage_npy, arrays.read_npy),
    "csv": Kind(arrays.csv_seeds, arrays.damage_csv, arrays.read_csv),
}


def once(rng: np.random.Generator, seeds: list[bytes], kind: Kind) -> bytes:
    """A seed, damaged up to three times over."""
    data = seeds[int(rng.integers(0, len(seeds)))]
    for _ in range(int(rng.integers(1, 4))):
        data = kind.damage(rng, data)
    return data


def fuzz(kind: str, seconds: float, seed: int, keep: Path) -> tuple[int, int, int]:
    """Files read, files accepted, failures."""
    rng, seeds = np.random.default_rng(seed), KINDS[kind].seeds()
    count = accepted = failures = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = once(rng, seeds, KINDS[kind])
        signal.alarm(HANG_SECONDS)
        try:
            accepted += KINDS[kind].read(data)
        except Exception:
            failures += 1
            keep.mkdir(parents=True, exist_ok=True)
            path = keep / f"{kind}-{seed}-{count}.{kind}"
            path.write_bytes(data)
            print(f"{path}:\n{traceback.format_exc()}", file=sys.stderr)
        finally:
            signal.alarm(0)
        count += 1
    return count, accepted, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for all formats together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGALRM, _alarm)
    kinds, failed = args.kind or KINDS, 0
    for kind in kinds:
        count, accepted, failures = fuzz(kind, args.seconds / len(kinds), args.seed, args.keep)
        print(
            f"{kind}: {count} damaged files read, {accepted} of them accepted, {failures} failures"
        )
        failed += failures
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
