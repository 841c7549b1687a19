# SPDX-License-Identifier: Apache-2.0
"""Builds with only one of the two requantisers: the same bytes, less code, and no wrong model."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import LAYERS, disjoint, random_inputs
from vmcu_bench import runners
from vmcu_bench.runners.compiled import CompiledRunner
from vmcu_tools import paths
from vmcu_tools.emit import emit, write
from vmcu_tools.graph import Graph, Node
from vmcu_tools.machine import reference
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.ops.softmax import Softmax
from vmcu_tools.quant import FixedPoint, FloatScale, Requant

ONLY: dict[str, type] = {"FIXED": FixedPoint, "FLOAT": FloatScale}
OTHER = {"FIXED": "FLOAT", "FLOAT": "FIXED"}
KINDS = (
    *("conv2d", "pointwise", "column", "depthwise", "depthwise_square", "fully_connected"),
    "transpose_conv",
)

needs_boards = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)


def graph_with(only: str) -> Graph:
    """Layers of all kinds whose kernels have both requantisers, all with the same one."""

    class OneKind(Builder):
        def requant(self, *sizes: int) -> Requant:
            found = super().requant(*sizes)
            return found if isinstance(found, ONLY[only]) else self.requant(*sizes)

    builder = OneKind(np.random.default_rng(11))
    return builder.graph([LAYERS[kind](builder).name for kind in KINDS for _ in range(6)])


def only_with(only: str, board: str) -> CompiledRunner:
    """A board whose images are built with one of the requantisers."""
    target = runners.get(board)
    assert isinstance(target, CompiledRunner)
    flag = f"-DVMCU_NO_REQUANT_{OTHER[only]}"
    return replace(target, name=f"{board} {only}", flags=(*target.flags, flag))


@pytest.mark.parametrize("only", ONLY)
@pytest.mark.parametrize(
    "board",
    [
        "host",
        pytest.param("qemu:m3", marks=[needs_boards, pytest.mark.slow]),
        pytest.param("qemu:m4", marks=needs_boards),
    ],
)
def test_bytes(only: str, board: str) -> None:
    target = only_with(only, board)
    graph = graph_with(only)
    assert set().union(*(node.op.requantisers for node in graph.nodes)) == {only}
    sample = random_inputs(graph, 11)
    (outputs,) = target.run(disjoint(graph), [sample])
    wanted = reference.run(graph, sample)
    for port, output in zip(graph.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, wanted[port.tensor])


def layers_of_all_kinds() -> Graph:
    builder = Builder(np.random.default_rng(5))
    return builder.graph([LAYERS[kind](builder).name for kind in LAYERS for _ in range(6)])


def with_nodes(graph: Graph, nodes: list[Node]) -> Graph:
    """Of independent layers, those."""
    names = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    return replace(
        graph,
        nodes=tuple(nodes),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in names},
        inputs=tuple(port for port in graph.inputs if port.tensor in names),
        outputs=tuple(port for port in graph.outputs if port.tensor in names),
    )


@pytest.mark.parametrize("kind", ONLY)
def test_what_does_not_ask_for_a_requantiser_runs_without(kind: str) -> None:
    graph = layers_of_all_kinds()
    rest = [node for node in graph.nodes if kind not in node.op.requantisers]
    # Their kernels need no choice, be there one among their parameters.
    assert {type(node.op) for node in rest} >= {MaxPool2D, Requantize, Softmax}
    graph = with_nodes(graph, rest)
    target = only_with(OTHER[kind], "host")
    sample = random_inputs(graph, 5)
    (outputs,) = target.run(disjoint(graph), [sample])
    wanted = reference.run(graph, sample)
    for port, output in zip(graph.outputs, outputs, strict=True):
        what = str(graph.producer(port.tensor).op)
        np.testing.assert_array_equal(output, wanted[port.tensor], err_msg=what)


def compiled(source: Path, define: str) -> subprocess.CompletedProcess[str]:
    include = [f"-I{paths.runtime() / 'include'}", f"-I{source.parent}"]
    command = ["gcc", "-std=c99", f"-D{define}", *include, "-c", str(source), "-o", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("only", ONLY)
def test_a_model_without_its_requantiser_does_not_compile(only: str, tmp_path: Path) -> None:
    write(emit(disjoint(graph_with(only)), "kws").files, tmp_path)
    assert compiled(tmp_path / "kws.c", f"VMCU_NO_REQUANT_{OTHER[only]}").returncode == 0
    done = compiled(tmp_path / "kws.c", f"VMCU_NO_REQUANT_{only}")
    assert done.returncode != 0
    assert f"kws needs CONFIG_VMCU_REQUANT_{only}=y" in done.stderr


def text_bytes(source: str, folder: Path, *flags: str) -> int:
    runtime = paths.runtime()
    target = folder / "kernel.o"
    options = ["-std=c99", "-O2", "-mcpu=cortex-m3", "-mthumb", "-ffreestanding", *flags]
    files = [f"-I{runtime / 'include'}", "-c", str(runtime / "kernels" / source), "-o", str(target)]
    subprocess.run(["arm-none-eabi-gcc", *options, *files], check=True)
    done = subprocess.run(
        ["arm-none-eabi-size", target], check=True, capture_output=True, text=True
    )
    return int(done.stdout.splitlines()[1].split()[0])


@needs_boards
def test_less_code(tmp_path: Path) -> None:
    def saved(source: str, flag: str) -> int:
        return text_bytes(source, tmp_path) - text_bytes(source, tmp_path, flag)

    assert saved("gen/conv.c", "-DVMCU_NO_REQUANT_FIXED") > 3000
    assert saved("gen/dense.c", "-DVMCU_NO_REQUANT_FIXED") > 1200
    assert saved("support.c", "-DVMCU_NO_REQUANT_FLOAT") > 350
