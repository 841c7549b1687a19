# SPDX-License-Identifier: Apache-2.0
"""The page of results has the cycles of other libraries' orders as they are computed."""

from __future__ import annotations

import shutil
from types import ModuleType

import pytest
from vmcu_bench.cycles import kernels
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.samples import make_samples
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind

from scripts import ROOT, script

MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
# How far cycles per MAC may be from what the library itself took on the same emulator.
APART = 0.20


@pytest.fixture(scope="module")
def orders() -> ModuleType:
    return script("orders", "benchmarks/orders/run.py")


def test_the_page_has_the_figures_of_now(orders: ModuleType) -> None:
    """A row of either table: the others take a minute."""
    page = (ROOT / "doc" / "results.md").read_text(encoding="utf-8")
    layer = orders.single_layers(ROOT)[0].graph()
    module = next(m.graph() for m in orders.modules() if m.name == "S8")
    rows = [
        *orders.compared([layer], orders.F767_MEGAHERTZ),
        *orders.compared([module], orders.F411_MEGAHERTZ, left_out="Add"),
    ]
    for row in rows:
        line = f"| {' | '.join(row)} |"
        assert line in page, "python benchmarks/orders/run.py --write doc/results.md"


@pytest.mark.parametrize("case", [c for c in kernels.CASES if c.peer_cycles], ids=lambda c: c.name)
def test_cmsis_nn_in_its_order_takes_what_it_took(case: kernels.Case, orders: ModuleType) -> None:
    if case.kind == "dense" or (case.kind == "conv" and case.kernel > 1):
        pytest.skip("neither a 1x1 nor a depthwise convolution")
    graph = kernels.case_graph(case, 0)
    cycles = orders.theirs(graph, "cmsis_nn.c").cycles / bind(graph, graph.nodes[0]).macs
    assert case.peer_cycles == pytest.approx(cycles, rel=APART)


def test_wrong_bytes_are_no_figure(orders: ModuleType) -> None:
    graph = kernels.case_graph(kernels.CASES[0], 0)
    tensors = reference.run(graph, make_samples(graph, 1, 0, 0)[0])
    tensors["out"] = tensors["out"] ^ 1
    with pytest.raises(RunnerError, match="19200 bytes of 1x1 16->48, 20x20 are wrong"):
        orders.taken("cmsis_nn.c", graph, graph.nodes[0], tensors)
