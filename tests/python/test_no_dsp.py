# SPDX-License-Identifier: Apache-2.0
"""That a Cortex-M4 gives the same bytes with the kernels of a Cortex-M3."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from random_graphs import disjoint, groups, random_inputs, random_layers
from vmcu_bench import oracle, runners
from vmcu_bench.runners.qemu import ARM, QemuRunner
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.machine import reference

pytestmark = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)

# Only operators that equal ONNX Runtime to the bit.
TINY = paths.root() / "tests" / "runtime" / "tiny.onnx"
# What no compiler makes of C: it knows the core and may choose others by itself.
DSP = re.compile(r"\t(smlad|sxtb16)(\.w)?\t")


def boards() -> tuple[QemuRunner, QemuRunner]:
    """With and without."""
    board = runners.get("qemu:m4")
    assert isinstance(board, QemuRunner)
    return board, replace(board, name="qemu:m4 no DSP", flags=(*board.flags, "-DVMCU_NO_DSP"))


def dsp_instructions(board: QemuRunner) -> int:
    kernels = board.archive(paths.runtime().glob("kernels/gen/[acd]*[a-z].c"))
    command = [ARM.tool("objdump"), "-d", "--no-show-raw-insn", str(kernels)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return len(DSP.findall(done.stdout))


def test_the_choice_of_kernels() -> None:
    with_dsp, without = boards()
    assert dsp_instructions(with_dsp) > 100
    assert dsp_instructions(without) == 0


def test_bytes_are_onnx_runtimes() -> None:
    pytest.importorskip("onnxruntime")
    plan, judge = compile_model(TINY), oracle.open(TINY)
    samples = [random_inputs(plan.graph, seed) for seed in range(5)]
    port = plan.graph.outputs[0].tensor
    for sample, (output,) in zip(samples, boards()[1].run(plan, samples), strict=True):
        np.testing.assert_array_equal(output, judge.run(sample)[port])


@pytest.mark.parametrize("kinds", groups(), ids="+".join)
def test_layers(kinds: tuple[str, ...]) -> None:
    graph = random_layers(kinds, 20, seed=7)
    sample = random_inputs(graph, 7)
    (outputs,) = boards()[1].run(disjoint(graph), [sample])
    wanted = reference.run(graph, sample)
    for port, output in zip(graph.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, wanted[port.tensor])
