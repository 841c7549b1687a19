# SPDX-License-Identifier: Apache-2.0
"""The page on cycles has what its benchmark prints; no published time is below the model's."""

from __future__ import annotations

import shutil
import sys
from types import ModuleType

import pytest
from builders.networks import SHARED, present

from scripts import ROOT, script

PAGE = ROOT / "doc" / "cycles.md"
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return script("published", "benchmarks/published/run.py")


def test_the_page_has_the_models_error(benchmark: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    block = benchmark.error().markdown(benchmark.command("error"))
    again = f"{benchmark.command('error')} --write doc/cycles.md"
    assert sys.modules["pages"].insert(page, "error", block) == page, again


def test_the_model_is_a_bound_from_below(benchmark: ModuleType) -> None:
    """As the page says: no board was faster than the model has it."""
    found = benchmark.published()
    assert [one.network for one in found] == list(benchmark.MODELS)
    assert all(0.5 < one.predicted_ms / one.measured_ms <= 1 for one in found)


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize("network", ["ad", "kws"])
def test_the_page_has_the_times_of_now(network: str, benchmark: ModuleType) -> None:
    file = present(SHARED / benchmark.MODELS[network])
    row = f"| {network} | {benchmark.modelled(file):.3g} | "
    again = f"{benchmark.command('engines')} --write doc/cycles.md"
    assert row in PAGE.read_text(encoding="utf-8"), again


def test_a_model_that_cannot_be_read_has_no_figures(benchmark: ModuleType) -> None:
    with pytest.raises(ValueError, match="nothing has no figures"):
        benchmark.modelled(ROOT / "nothing")
