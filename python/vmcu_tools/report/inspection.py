# SPDX-License-Identifier: Apache-2.0
"""The contents of a model file, whether it is supported or not, and the operators that can be in
one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import frontends
from ..compiler import compile_model
from ..emit import emit
from ..errors import Problem, UserError
from ..frontends.onnx import importer as onnx
from ..frontends.onnx.in_float import REWRITTEN
from ..frontends.tflite import float as tflite_float
from ..frontends.tflite import fold as tflite_fold
from ..frontends.tflite import importer as tflite
from ..graph import Graph, Port
from ..ops import LAYER_OF, bind


@dataclass(frozen=True)
class NodeRow:
    """A node: of the int8 graph where the model is supported, else of the file, and then without
    figures. shape is (H, W, C); macs and weight_bytes are those of the whole layer."""

    name: str
    op: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None
    macs: int
    weight_bytes: int
    problem: str


@dataclass(frozen=True)
class PortRow:
    """A graph input or output as the file has it, and its quantisation."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Inspection:
    """A model file: its ports, its nodes and, where it is supported, their sums; else the
    problems. weight_bytes: of the layers one by one, as the file has them; flash_bytes: of the
    tables that `vmcu build` writes, None where no plan is found without options."""

    model: str
    supported: bool
    inputs: tuple[PortRow, ...]
    outputs: tuple[PortRow, ...]
    nodes: tuple[NodeRow, ...]
    macs: int
    weight_bytes: int
    problems: tuple[Problem, ...]
    flash_bytes: int | None = None


@dataclass(frozen=True)
class Coverage:
    """The operators of a file format that have an import rule, by name, and the constraints of
    those that have more than the general ones. `folded`: operators that vmcu computes while it
    reads the file. `tabulated`: float and Boolean operators that become a table. `rewritten`: of
    float models, operators that `vmcu quantize` replaces by supported ones."""

    format: str
    supported: tuple[str, ...]
    constraints: dict[str, str]
    folded: tuple[str, ...]
    tabulated: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()


def inspect(path: Path, name: str) -> Inspection:
    """name: of the model's tables in C. Raises UserError for a file that is no model at all."""
    try:
        graph = frontends.load(path)
    except UserError as error:
        return _unsupported(path, error)
    nodes = tuple(row(graph, index) for index in range(len(graph.nodes)))
    return Inspection(
        str(path),
        True,
        _ports(graph, graph.inputs),
        _ports(graph, graph.outputs),
        nodes,
        sum(node.macs for node in nodes),
        sum(node.weight_bytes for node in nodes),
        (),
        _flash_bytes(path, name),
    )


def _flash_bytes(path: Path, name: str) -> int | None:
    try:
        return emit(compile_model(path), name).flash_bytes
    except UserError:
        return None


def row(graph: Graph, index: int) -> NodeRow:
    """Returns the row of a node."""
    node = graph.nodes[index]
    layer, out = bind(graph, node), graph.tensors[node.outputs[0]]
    figures = layer.macs, layer.weight_bytes
    return NodeRow(node.name, node.kind, out.shape, out.scale, out.zero_point, *figures, "")


def _ports(graph: Graph, ports: Sequence[Port]) -> tuple[PortRow, ...]:
    rows = []
    for port in ports:
        tensor = graph.tensors[port.tensor]
        quantisation = tensor.scale, tensor.zero_point
        rows.append(PortRow(port.name, port.dtype, port.file_shape, port.layout, *quantisation))
    return tuple(rows)


def _unsupported(path: Path, error: UserError) -> Inspection:
    """The nodes of the file, each with its problem."""
    by_node = {problem.node: problem.reason for problem in error.problems if problem.node}
    nodes = tuple(
        NodeRow(name, op, (), None, None, 0, 0, by_node.get(name, ""))
        for name, op in frontends.file_nodes(path)
    )
    return Inspection(str(path), False, (), (), nodes, 0, 0, error.problems)


def coverage() -> tuple[Coverage, ...]:
    """The operators of both formats, from the importers' rules."""
    rules = set(tflite.RULES)
    return (
        Coverage(
            ".onnx",
            tuple(sorted(onnx.RULES, key=_key)),
            _stated(onnx.CONSTRAINTS),
            ("others of ONNX, except windows, recurrent layers, random numbers and control flow",),
            rewritten=REWRITTEN,
        ),
        Coverage(
            ".tflite",
            tuple(sorted(rules)),
            _stated(tflite.CONSTRAINTS),
            tuple(sorted(tflite_fold.FOLDED - rules)),
            tuple(sorted(tflite_float.TABULATED - rules)),
        ),
    )


def _stated(constraints: dict[str, str]) -> dict[str, str]:
    """The constraints that are not empty, by operator."""
    return {op: constraints[op] for op in sorted(constraints, key=_key) if constraints[op]}


def _key(name: str) -> tuple[bool, str]:
    """ONNX's own operators before those of other domains."""
    return "." in name, name


HEADER = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Operators

`vmcu inspect --operators --markdown doc/ops.md` writes this page.
vmcu names the node that breaks a constraint.

Constraints of every operator:

- Activations are int8 with one scale and one zero point. Use `vmcu quantize` for float models.
- .onnx: activations can be uint8. .tflite: only inputs and outputs can be uint8, int16 or int32.
- Weights, biases and all other parameters are constant. Biases are int32; in .onnx, also float.
- All shapes are fixed and have at most 8 dimensions. A tensor has at most 8 MiB.
- Convolutions and pooling require batch size 1.
- A data movement (Transpose, Slice, Gather) needs at most 65,536 offsets.
- A function must have a number as its result for each of the 256 input values.

A dash means: no other constraints.
"""


CONSTANT_TIME = """## Constant time

On RV32, branches of equal length limit outputs to int8: cycles can differ. Kernels execute the same
number of instructions for every input, except:

| Layer | Instructions depend on, and by how much |
| --- | --- |"""


def constant_time() -> list[str]:
    """The layers whose instructions depend on data."""
    notes = sorted((op.__name__, op.data_dependent) for op in LAYER_OF if op.data_dependent)
    return [CONSTANT_TIME, *(f"| {name} | {note} |" for name, note in notes), ""]


def markdown(coverage: tuple[Coverage, ...]) -> str:
    """doc/ops.md."""
    lines = [HEADER, *constant_time()]
    for entry in coverage:
        lines.append(f"## {entry.format}\n")
        lines.append(f"{len(entry.supported)} operators:\n")
        lines += ["| Operator | Constraints |", "| --- | --- |"]
        lines += [f"| {name} | {entry.constraints.get(name, '-')} |" for name in entry.supported]
        if entry.folded:
            lines.append(
                "\nvmcu computes these while it reads the file. All inputs must be constant:\n"
            )
            lines += [f"- {name}" for name in entry.folded]
        if entry.tabulated:
            lines.append("\nFloat or Boolean, on single elements of one int8 tensor:\n")
            lines += [f"- {name}" for name in entry.tabulated]
        if entry.rewritten:
            lines.append(f"\n`vmcu quantize` also accepts {', '.join(entry.rewritten)}.")
        lines.append("")
    return "\n".join(lines)
