# SPDX-License-Identifier: Apache-2.0
"""Kernels that compute some columns of a row, from tensors whose rings split their rows, give the
bytes of the numpy meaning of whole rows. They find garbage wherever they must not look."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from drawn import CASES, case
from pool_log import machine_of
from random_graphs import LAYERS, disjoint, random_inputs, random_layers, step_of
from vmcu_bench import runners
from vmcu_bench.runners.compiled import MODEL_NAME, CompiledRunner
from vmcu_bench.runners.host import HostRunner
from vmcu_bench.runners.qemu import QemuRunner
from vmcu_tools.emit import emit
from vmcu_tools.graph import Graph, Tensor
from vmcu_tools.kernels.language.evaluate import run
from vmcu_tools.machine import reference
from vmcu_tools.ops import Form, Layer, ProgramLayer, bind
from vmcu_tools.ops.binary import Binary
from vmcu_tools.plan.schedule import in_one_piece

SOURCES = Path(__file__).parents[1] / "c" / "ranges"
POOL_BYTES = 8192
INPUTS = 3
BATCH = 24


def by_columns(kind: str) -> bool:
    """True if some layers of the kind may be asked for less than whole rows."""
    graph = random_layers(kind, 8, 0)
    return any(bind(graph, node).by_columns for node in graph.nodes)


# Kinds of random layers, and the form in which those that can shall work.
KINDS = {kind: (kind, Form.USUAL) for kind in LAYERS if by_columns(kind)}
KINDS["direct pointwise"] = ("pointwise", Form.DIRECT)
KINDS |= {f"wide {kind}": (kind, Form.WIDE) for kind in ("pointwise", "conv2d")}


@dataclass(frozen=True)
class View:
    """struct range_view of tests/c/ranges/ranges.h."""

    base: int = 0
    ring: int = 1
    phase: int = 0
    row: int = 0
    rows: int = 0
    step: int = 1
    column: int = 0
    columns: int = 0

    @property
    def text(self) -> str:
        return "{" + ", ".join(str(getattr(self, f.name)) for f in fields(self)) + "}"


@dataclass(frozen=True)
class Call:
    """struct range_call of the same file."""

    layer: int
    out: View
    inputs: tuple[View, ...]

    @property
    def text(self) -> str:
        views = [view.text for view in self.inputs]
        return f"\t{{{self.layer}, {self.out.text}, {{{', '.join(views)}}}}},"


def cuts(rng: np.random.Generator, width: int) -> list[tuple[int, int]]:
    """A row in ranges: (first column, columns)."""
    places = np.unique([0, width, *rng.integers(0, width + 1, 3)])
    return [(int(a), int(b - a)) for a, b in itertools.pairwise(places)]


def ring_of(
    rng: np.random.Generator, t: Tensor, rows: range, columns: range, may_split: bool
) -> tuple[int, int]:
    """Bytes of a ring that holds these pixels, maybe no more, and of its phase."""
    _, width, channels = t.shape
    whole = t.shape[0] * width
    if not rows or not columns:
        return channels * int(rng.integers(1, whole + 1)), 0
    first, last = rows[0] * width + columns[0], rows[-1] * width + columns[-1]
    while True:
        span = last - first + 1
        most = whole if rng.random() < 0.3 else min(whole, span + 3)
        ring = int(rng.integers(span, most + 1))
        if may_split and ring >= width and rng.random() < 0.3:
            # Whole rows in bytes, and split nevertheless where the phase is none.
            ring = -(-ring // width) * width
        phase = int(rng.integers(0, ring)) if may_split and rng.random() < 0.5 else 0
        # One pixel behind the other, from `first` on, as far as they must not be split.
        if may_split or first % ring + len(columns) <= ring:
            return ring * channels, phase * channels


def views(
    rng: np.random.Generator, wanted: Sequence[tuple[Tensor, range, range, bool]]
) -> Iterator[View]:
    """Rings for the pixels that a call needs of its tensors. A ring of whole rows may go around the
    pool's end."""
    free, end = 0, POOL_BYTES
    for t, rows, columns, may_split in wanted:
        ring, phase = ring_of(rng, t, rows, columns, may_split)
        base = free + int(rng.integers(0, 8))
        in_rows = ring % t.row_bytes == 0 and phase % t.row_bytes == 0
        if end == POOL_BYTES and in_rows and free == 0:
            before_end = int(rng.integers(1, ring // t.row_bytes + 1)) * t.row_bytes
            base = end = POOL_BYTES - before_end
            free = ring - before_end
        else:
            free = base + ring
        assert free <= end
        first = rows[0] if rows else 0
        column = columns[0] if columns else 0
        yield View(base, ring, phase, first, len(rows), rows.step, column, len(columns))


def call_of(
    rng: np.random.Generator, number: int, layer: Layer, y: int, x: int, count: int, short: int
) -> Call:
    wanted = []
    for index, t in enumerate(layer.ins):
        rows, columns = range(t.shape[0]), range(t.shape[1])
        if layer.by_columns:
            rows = layer.input_rows(index, y)
            columns = layer.reach(index).span(1, x, x + count - 1, t.shape[1])
        # What is repeated along rows or columns is never in a ring smaller than itself.
        repeated = isinstance(layer.op, Binary)
        may_split = layer.by_columns and not repeated and index not in in_one_piece(layer)
        wanted.append((t, rows, columns[: len(columns) - short], may_split))
    wanted.append((layer.out, range(y, y + 1), range(x, x + count), False))
    found = list(views(rng, wanted))
    inputs = (*found[:-1], *[View()] * (INPUTS - len(layer.ins)))
    return Call(number, found[-1], inputs)


def calls_of(graph: Graph, seed: int, form: Form, short: int) -> Iterator[Call]:
    """All layers in random ranges of columns. `short`: columns withheld from each call."""
    rng = np.random.default_rng(seed)
    for number, node in enumerate(graph.nodes):
        layer = step_of(graph, node, form).bind(graph)
        height, width, _ = layer.out.shape
        for y in range(height):
            for x, count in cuts(rng, width) if layer.by_columns else [(0, width)]:
                yield call_of(rng, number, layer, y, x, count, short)


class InRanges(CompiledRunner):
    """Another target, which makes calls of its own."""

    def sources(self) -> list[Path]:
        return [*super().sources(), SOURCES / "ranges.c"]

    def include_flags(self) -> list[str]:
        return [*super().include_flags(), f"-I{SOURCES}"]

    def link_flags(self) -> list[str]:
        return [*super().link_flags(), "-Wl,--wrap=vmcu_invoke"]


class HostInRanges(InRanges, HostRunner):
    pass


class BoardInRanges(InRanges, QemuRunner):
    pass


def in_ranges(name: str) -> CompiledRunner:
    target = runners.get(name)
    kind = BoardInRanges if isinstance(target, QemuRunner) else HostInRanges
    return kind(**{f.name: getattr(target, f.name) for f in fields(target)})


def expect_ranges(
    graph: Graph, seed: int, target: CompiledRunner, form: Form = Form.USUAL, short: int = 0
) -> None:
    plan, sample = disjoint(graph, form), random_inputs(graph, seed)
    table = "\n".join(call.text for call in calls_of(graph, seed, form, short))
    text = f'#include "ranges.h"\n\nconst struct range_call range_calls[] = {{\n{table}\n}};\n'
    text += "const size_t range_count = sizeof(range_calls) / sizeof(range_calls[0]);\n"
    with tempfile.TemporaryDirectory(prefix="vmcu-") as name:
        files = {**emit(plan, MODEL_NAME).files, "range_calls.c": text}
        image = target.build(files, MODEL_NAME, Path(name))
        (outputs,) = target.execute(image, plan, [sample])
    wanted = reference.run(graph, sample)
    for port, got in zip(graph.outputs, outputs, strict=True):
        node = graph.producer(port.tensor)
        np.testing.assert_array_equal(got, wanted[port.tensor], err_msg=f"{node}")


BOARDS = "host:sanitize", "qemu:m3", "qemu:m4", "qemu:m55", "qemu:rv32"
TARGETS = {name: in_ranges(name) for name in BOARDS}


def on_boards() -> Iterator[object]:
    """Each kind on each board. What is not a program is the same C for all cores: `./test slow` has
    it on all boards, other runs have it on the first one."""
    for kind, board in itertools.product(KINDS, BOARDS):
        graph = random_layers(KINDS[kind][0], 8, 0)
        is_program = any(isinstance(bind(graph, node), ProgramLayer) for node in graph.nodes)
        is_slow = not is_program and board not in BOARDS[:2]
        yield case(kind, board, slow=is_slow)


@pytest.mark.parametrize("seed", range(max(1, CASES // BATCH // 4)))
@pytest.mark.parametrize(("kind", "target"), [*on_boards()])
def test_ranges(kind: str, target: str, seed: int) -> None:
    layers, form = KINDS[kind]
    graph = random_layers(layers, BATCH, 200 + seed)
    graph = replace(graph, target=TARGETS[target].family or graph.target)
    expect_ranges(graph, seed, TARGETS[target], form)


@pytest.mark.parametrize("kind", ["conv2d", "depthwise_square", "max_pool", "add"])
def test_a_column_too_few_is_noticed(kind: str) -> None:
    """Kernels do use all that the test above lets them see."""
    with pytest.raises(AssertionError, match="not equal"):
        expect_ranges(random_layers(kind, BATCH, 200), 0, TARGETS["host:sanitize"], short=1)


@pytest.mark.parametrize("kind", KINDS)
def test_programs_in_ranges(kind: str) -> None:
    """The same in Python, where rows are whole."""
    layers, form = KINDS[kind]
    graph, rng = random_layers(layers, 20, 300), np.random.default_rng(7)
    data = reference.run(graph, random_inputs(graph, 7))
    for node in graph.nodes:
        layer = step_of(graph, node, form).bind(graph)
        if not isinstance(layer, ProgramLayer) or not layer.by_columns:
            continue
        machine = machine_of(layer, [data[name] for name in node.inputs])
        for y in range(layer.height):
            for column, columns in cuts(rng, layer.out.shape[1]):
                machine.names |= {"column": column, "columns": columns}
                run(layer.binding.program, machine, y)
        np.testing.assert_array_equal(machine.output, data[layer.out.name])
