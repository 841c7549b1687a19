# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.c: a model of random layers for every kind of layer, with random inputs and the
outputs that the layers' numpy meaning gives. CMake runs it with python/ and tests/python in
PYTHONPATH; the same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from edge_graphs import EDGES, edge_layers
from random_builder import Builder
from random_graphs import LAYERS, disjoint, random_inputs, random_layers
from random_networks import two_layers
from vmcu_tools import paths
from vmcu_tools.emit import emit
from vmcu_tools.graph import Graph, Window
from vmcu_tools.kernels.language.packing import WORDS, Packing
from vmcu_tools.kernels.programs import programs
from vmcu_tools.kernels.targets import SUFFIXES, named
from vmcu_tools.machine import reference
from vmcu_tools.ops import Form, kernel_of, serves
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.kernel_type import KERNEL_TYPES
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.recomputation import Pair, recomputed

OF_STREAMS = {symbol for symbol, kind in KERNEL_TYPES.items() if kind.streams}
# What an image of a board with 64 KB of RAM and 256 KB of flash has room for.
POOL_BYTES = 2600
LAYERS_MAX = 4
EDGE_STEP = 8
SEED = 11
# How many layers there are of kinds whose layers have tables of 0.5 to 1 KB each.
FEW = dict.fromkeys(("attention", "log_softmax_onnx", "lstm", "rms_norm", "table_mean"), 1)
FEW |= {"per_tensor": 1, "softmax": 2, "grouped": 1, "concat": 2}
# Kinds of layers that stand for many kernels, or for one that does many things.
MORE = {"add": 2, "depthwise_square": 2, "pointwise_operator": 4}
# Kinds of which one more layer is drawn for each kernel that is missing.
MANY = (*MORE, "moving_operator", "per_tensor", "pointwise", "training")


def graphs(most: int) -> Iterator[tuple[str, Graph]]:
    """Names and graphs of up to `most` independent layers; of the edge cases, which other tests
    have all of, some."""
    for kind in LAYERS:
        for number in range(MORE.get(kind, 1)):
            yield f"{kind}_{number}", fitting(kind, SEED + number, min(most, FEW.get(kind, most)))
    yield "mean", means()
    for first in range(0, len(EDGES), EDGE_STEP):
        graph = edge_layers(first, 1)
        if bytes_of(graph) <= POOL_BYTES:
            yield f"edge_{first}", graph


def bytes_of(graph: Graph) -> int:
    return sum(tensor.bytes for tensor in graph.tensors.values())


def fitting(kind: str, seed: int, most: int) -> Graph:
    """As many layers of a kind as the pool takes, up to `most`."""
    for count in range(most, 0, -1):
        graph = random_layers(kind, count, seed)
        if bytes_of(graph) <= POOL_BYTES:
            return graph
    raise ValueError(f"{kind}: not one layer fits into {POOL_BYTES} bytes")


def means() -> Graph:
    """Means of whole images, which a kernel of their own computes as rows come."""
    b = Builder(np.random.default_rng(SEED))
    outputs = []
    for of_sum in (False, True):
        for _ in range(4):
            x = b.input(b.shape())
            height, width, channels = x.shape
            real = b.factor(0.3, 2.0) if not of_sum else b.factor(0.5 / height / width, 1.0)
            op = AveragePool2D(Window((height, width)), real, False, of_sum, **b.limits())
            outputs.append(b.node(op, [x], (1, 1, channels)).name)
    return b.graph(outputs)


def plans(most: int = LAYERS_MAX, target: str | None = None) -> Iterator[tuple[str, Plan]]:
    """Every graph in the usual form, and in each other form that some of its layers have. Then a
    layer for each kernel that is not among them, one of two that computes again what is between
    and one whose input is elsewhere at last. target: by its name in kernels/targets."""

    def of_target(graph: Graph) -> Graph:
        return replace(graph, target=target)

    missing = declared(target)
    for name, graph in ((name, of_target(graph)) for name, graph in graphs(most)):
        yield name, disjoint(graph)
        missing -= kernels_of(disjoint(graph))
        for form in Form:
            if form is not Form.USUAL and any(serves(graph, node, form) for node in graph.nodes):
                yield f"{name}_{form.name.lower()}", disjoint(graph, form)
                missing -= kernels_of(disjoint(graph, form))
    for kind, seed in product(MANY, range(100, 300)):
        plan = disjoint(of_target(random_layers(kind, 1, seed)))
        if kernels_of(plan) & missing:
            yield f"{kind}_{seed}", plan
            missing -= kernels_of(plan)
    again = recomputed(of_target(two_layers(SEED)), Pair(0, 1, 2))
    assert again is not None
    yield "recomputed", disjoint(again)
    missing -= kernels_of(disjoint(again))
    for seed in range(100, 300):
        graph = of_target(random_layers("conv2d", 1, seed))
        if missing and len(graph.inputs) == 1 and bytes_of(graph) <= POOL_BYTES:
            plan = make_plan(graph, CompileOptions(external_input=True))
            if kernels_of(plan) & missing:
                yield "elsewhere", plan
                missing -= kernels_of(plan)
    if missing:
        raise ValueError(f"no layer here has the kernel {', '.join(sorted(missing))}")


def declared(target: str | None = None) -> set[str]:
    """The kernels of a target that the runtime's headers declare, but for those that only streams
    have, whose answers src/test_hops.c compares."""
    include = paths.runtime() / "include" / "vmcu"
    text = "".join((include / name).read_text() for name in ("kernels.h", "operators.h"))
    found = re.findall(r"^void (\w+)\(const struct vmcu_call \*call\);", text, re.MULTILINE)
    common = {name for name in found if not name.endswith(SUFFIXES)} - written(WORDS)
    return (common | written(named(target).packing)) - OF_STREAMS


def written(packing: Packing) -> set[str]:
    """The kernels of a packing that are programs."""
    return {program.symbol for program in programs(packing).values()}


def kernels_of(plan: Plan) -> set[str]:
    return {kernel_of(plan.graph, step.bind(plan.graph)).symbol for step in plan.steps}


def array(name: str, values: list[np.ndarray]) -> str:
    flat = np.concatenate([value.ravel() for value in values]).tolist()
    lines = [", ".join(map(str, flat[at : at + 20])) for at in range(0, len(flat), 20)]
    text = "".join(f"\t{line},\n" for line in lines)
    return f"static const int8_t {name}[] = {{\n{text}}};\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--target", help="the core family, as of `vmcu build`")
    parser.add_argument("--layers", type=int, default=LAYERS_MAX, help="of a kind, at most")
    arguments = parser.parse_args()
    folder = arguments.output
    arrays, rows, includes, pool = [], [], [], 0
    for name, plan in plans(arguments.layers, arguments.target):
        inputs = random_inputs(plan.graph, SEED)
        values = reference.run(plan.graph, inputs)
        outputs = [values[port.tensor] for port in plan.graph.outputs]
        for file, text in emit(plan, name).files.items():
            (folder / file).write_text(text, encoding="utf-8")
        includes.append(f'#include "{name}.c"\n')
        arrays += [array(f"{name}_in", inputs), array(f"{name}_out", outputs)]
        rows.append(f'\t{{"{name}", &{name}_model, {name}_in, {name}_out}},\n')
        pool = max(pool, plan.pool_bytes)
    (folder / "vectors.c").write_text(
        "/* Written by make_vectors.py. */\n\n"
        f'#include "vectors.h"\n\n{"".join(includes)}\n{"".join(arrays)}\n'
        f"const struct vector vectors[] = {{\n{''.join(rows)}}};\n\n"
        "const unsigned int vector_count = sizeof(vectors) / sizeof(vectors[0]);\n",
        encoding="utf-8",
    )
    (folder / "vector_sizes.h").write_text(
        f"/* Written by make_vectors.py. */\n\n#define VECTOR_POOL_BYTES {pool}U\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
