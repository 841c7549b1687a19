# SPDX-License-Identifier: Apache-2.0
"""Runs the C unit tests of tests/c under sanitizers, and the C requantisers against numpy."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import online_device as device
import pytest
from vmcu_tools import quant

C_TESTS = Path(__file__).parents[1] / "c"
GUARD, POOLS, TURNS = "-DVMCU_POOL_GUARD", "-DVMCU_SEVERAL_POOLS", "-DVMCU_POOL_ROTATE"
# What a test needs the runtime to be built with, each time that it is run.
DEFINES: dict[str, tuple[tuple[str, ...], ...]] = {
    "test_guard": ((GUARD,), (GUARD, POOLS), (GUARD, TURNS)),
    "test_pools": ((POOLS,), (POOLS, GUARD), (POOLS, "-DVMCU_STREAMS", "-DVMCU_CONTAINERS")),
    "test_positions": ((TURNS,),),
}
CASES = [
    (source, defines)
    for source in sorted(C_TESTS.glob("test_*.c"))
    for defines in DEFINES.get(source.stem, ((),))
]


def build(source: Path, folder: Path, *defines: str, flags: Sequence[str] = ()) -> Path:
    """flags: of the test alone."""
    program, target = folder / source.stem, device.host(defines, False)
    files = map(str, (source, target.archive([source])))
    target.gcc(["-Wconversion", "-Wshadow", *flags, *files, "-o", str(program)], folder)
    return program


@pytest.mark.parametrize(
    ("source", "defines"), CASES, ids=["".join((one.stem, *defines)) for one, defines in CASES]
)
def test_c(source: Path, defines: tuple[str, ...], tmp_path: Path) -> None:
    program = build(source, tmp_path, *defines)
    subprocess.run([program], check=True)


def test_contraction_cannot_change_the_float_path(tmp_path: Path) -> None:
    """The barrier in requant.h holds even where the build allows fused operations."""
    fused = ("-march=haswell", "-ffp-contract=fast")
    program = build(C_TESTS / "test_requant.c", tmp_path, flags=fused)
    if "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no fused operations on this computer")
    subprocess.run([program], check=True)


@pytest.fixture(scope="module")
def requant_filter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(C_TESTS / "requant_filter.c", tmp_path_factory.mktemp("requant"))


def requantize_in_c(
    program: Path, acc: np.ndarray, factor: np.ndarray, shift: np.ndarray, addend: np.ndarray
) -> np.ndarray:
    """int32 (cases, 5): fixed point, soft float, hard float; soft and hard float with `addend`."""
    columns = acc.astype(np.int32), factor.view(np.int32), shift, addend
    records = np.stack([column.astype(np.int32) for column in columns], axis=1)
    done = subprocess.run([program], input=records.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.int32).reshape(-1, 5)


def accumulators(rng: np.random.Generator, count: int) -> np.ndarray:
    """int32 of every magnitude, and the values around which rounding changes."""
    acc = rng.integers(-(2**31), 2**31, count) >> rng.integers(0, 31, count)
    edges = [0, 1, -1, 2**24 - 1, 2**24, 2**24 + 1, 2**25 + 2, 2**31 - 1, -(2**31), 1 - 2**31]
    acc[: len(edges) * 1000] = np.tile(edges, 1000)
    return acc


def test_fixed_point_matches_numpy(requant_filter: Path) -> None:
    rng = np.random.default_rng(0)
    count = 1_000_000
    acc = accumulators(rng, count)
    multiplier = rng.integers(2**30, 2**31, count).astype(np.int32)
    multiplier[::10] = rng.integers(-(2**31), 2**31, count // 10)
    multiplier[::1000] = -(2**31)
    shift = rng.integers(-31, 32, count)
    wanted = quant.fixed_point_multiply(acc, multiplier, shift)
    got = requantize_in_c(requant_filter, acc, multiplier, shift, np.zeros(count))
    np.testing.assert_array_equal(got[:, 0], wanted)


def test_float_matches_numpy(requant_filter: Path) -> None:
    rng = np.random.default_rng(1)
    count = 2_000_000
    acc = accumulators(rng, count)
    scale = np.exp2(rng.uniform(-40, 10, count)).astype(np.float32)
    # Products next to a tie: the float32 nearest to (n + 1/2) / acc.
    ties = slice(count // 4, count // 2)
    halves = rng.integers(-300, 300, count)[ties] + 0.5
    scale[ties] = np.abs(halves / np.where(acc[ties] == 0, 1, acc[ties]))
    # Exact ties, and factors at the ends of the format.
    scale[count // 2 : count // 2 + 100_000] = np.exp2(rng.integers(-20, 1, 100_000))
    ends = np.array([0, 1e-45, 1e-39, 1.1754944e-38, 3.4028235e38, 1, -0.5], np.float32)
    scale[: ends.size * 1000] = np.repeat(ends, 1000)
    with np.errstate(over="ignore", under="ignore"):
        wanted = quant.FloatScale(scale).apply(acc)
        addend = rng.integers(-128, 256, count)
        total = acc.astype(np.float32) * scale + addend.astype(np.float32)
        added = np.rint(np.clip(total, -(2.0**20), 2.0**20))
    got = requantize_in_c(requant_filter, acc, scale, np.zeros(count), addend)
    np.testing.assert_array_equal(got[:, 1], wanted)
    np.testing.assert_array_equal(got[:, 2], wanted)
    np.testing.assert_array_equal(got[:, 3], added)
    np.testing.assert_array_equal(got[:, 4], added)
