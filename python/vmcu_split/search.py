# SPDX-License-Identifier: Apache-2.0
"""Searches the split with the least latency or the least RAM of a node.

A pipeline has a segment of layers for each node. A split by rows has phases: in each, every node
computes a band of rows of some layers; between two, nodes exchange the rows at the borders of their
bands; the rows next to them are computed twice. The first node computes the layers behind the last
phase. Dynamic programming chooses borders by the cost of the second band of each phase, which has
neighbours on both sides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vmcu_tools.boards.table import Board
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.graph import Graph
from vmcu_tools.ops import bind
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.costs import cycles_of
from vmcu_tools.report.cycles import cycle_seconds
from vmcu_tools.report.time import board_seconds

from .nodes import NodePart, Split, Wire, check_parts
from .pieces import Network, band, can_band, read_network, segment

RAM = "ram"
# Borders that are tried, the cheapest of each run of layers.
MOST_BORDERS = 12
# Of two paths that are as long but for this factor, the one with less RAM is better.
SLACK = 1.01


# RAM of a node and seconds.
Cost = tuple[int, float]
NEVER: Cost = (1 << 62, math.inf)


@dataclass
class SplitSearch:
    """The search for one network on `count` nodes. parts: by their nodes and rows."""

    network: Network
    count: int
    wire: Wire
    board: Board
    options: CompileOptions
    parts: dict[tuple[int, int, range | None], NodePart] = field(default_factory=dict)

    def _cut(self, first: int, stop: int, rows: range | None) -> tuple[Graph, dict[str, range]]:
        """Returns a piece, and the rows of its input and output if it is a band."""
        if rows is None:
            return segment(self.network.graph, first, stop), {}
        cut, need = band(self.network.graph, first, stop, rows)
        return cut, {cut.inputs[0].tensor: need, cut.outputs[0].tensor: rows}

    def part(
        self, node: int, phase: int, first: int, stop: int, rows: range | None = None
    ) -> NodePart:
        """Returns the part of a node, planned. rows: of its output, if it is a band."""
        key = first, stop, rows
        if key not in self.parts:
            cut, bands = self._cut(first, stop, rows)
            piece, options, calls = self.network.prepare(cut), self.options, 1
            source = piece.inputs[0].tensor if piece.inputs else ""
            if piece.state.names:
                options = replace(options, hop=piece.tensors[source].shape[0])
            plan = make_plan(piece, options, prove=False)
            if piece.state.names:
                calls = plan.graph.tensors[source].shape[0] // options.hop
                outs = zip(plan.graph.outputs, piece.outputs, strict=True)
                rows_at_once = [
                    (plan.graph.rows_at_once(a), piece.tensors[b.tensor]) for a, b in outs
                ]
                assert all(count == tensor.shape[0] for count, tensor in rows_at_once)
            seconds = board_seconds(plan, self.board)[0] / calls
            cycles = sum(cycles_of(plan)) // calls
            self.parts[key] = NodePart(node, phase, cut, piece, plan, seconds, cycles, bands)
        return replace(self.parts[key], node=node, phase=phase)

    def _cost(self, first: int, stop: int, rows: range | None, wire: float, exact: bool) -> Cost:
        """Returns the cost of a piece, or a lower bound. wire: seconds of the messages before."""
        if exact:
            part = self.part(0, 0, first, stop, rows)
            return part.ram_bytes, part.seconds + wire
        cut, _ = self._cut(first, stop, rows)
        # States are among the inputs and outputs.
        ends = [[cut.tensors[p.tensor].bytes for p in ports] for ports in (cut.inputs, cut.outputs)]
        layers = [bind(cut, node) for node in cut.nodes]
        cycles = sum(layer.cycles(layer.height) for layer in layers)
        return max(map(sum, ends)), cycle_seconds(self.board) * cycles + wire

    def pipeline(self, best: str) -> Split | None:
        """Returns the best pipeline, if there is one."""
        borders = self._thinned([b for b in self.network.borders() if self.network.crossing(b)])
        ends = [0, *borders, len(self.network.graph.nodes)]

        def cost(first: int, stop: int, exact: bool) -> Cost:
            sizes = (self.network.graph.tensors[n].bytes for n in self.network.crossing(first))
            wire = sum(map(self.wire.seconds, sizes))
            return self._cost(first, stop, None, wire, exact)

        path = best_path(ends, cost, best, self.count) or []
        cuts = enumerate(itertools.pairwise(path))
        parts = [self.part(node, node, *cut) for node, cut in cuts]
        return self._split("pipeline", parts) if parts else None

    def rows(self, best: str) -> Split | None:
        """Returns the best split by rows, if there is one."""
        graph, last = self.network.graph, len(self.network.graph.nodes)
        borders = [] if self.network.states or len(graph.inputs) != 1 else self._row_borders()

        def cost(first: int, stop: int, exact: bool) -> Cost:
            if (first, stop) == (0, last):
                return NEVER
            if stop == last:
                size = self.network.crossing_bytes(first) // self.count
                wire = (self.count - 1) * self.wire.seconds(size)
                return self._cost(first, stop, None, wire, exact)
            rows, wire = self._even(stop, 1), 0.0
            if first:
                source = graph.nodes[first - 1].outputs[0]
                need = self._cut(first, stop, rows)[1][source]
                more = max(len(need) - len(self._even(first, 1)), 0)
                wire = 2 * self.wire.seconds(more * graph.tensors[source].row_bytes)
            return self._cost(first, stop, rows, wire, exact)

        path = best_path([0, *borders, last], cost, best) if borders else None
        return None if path is None else self.banded(path)

    def _row_borders(self) -> list[int]:
        """Returns the borders behind which rows can be on several nodes."""
        graph, allowed = self.network.graph, self.network.borders()
        outside = {port.tensor for port in graph.outputs}
        borders: list[int] = []
        for border, node in enumerate(graph.nodes[:-1], 1):
            height = graph.tensors[node.outputs[0]].shape[0]
            if not can_band(node) or height < self.count or node.outputs[0] in outside:
                break
            read = {name for later in graph.nodes[border:] for name in later.inputs}
            alone = self.network.crossing(border) == [node.outputs[0]]
            if border in allowed and alone and graph.inputs[0].tensor not in read:
                borders.append(border)
        return self._thinned(borders)

    def banded(self, path: Sequence[int]) -> Split:
        """Returns the split by rows with phases between borders. A node owns an even
        share of the rows, or as many of them as its next band needs."""
        *phases, tail = itertools.pairwise(path)
        parts = [self.part(0, len(phases), *tail)]
        own = [self._even(tail[0], node) for node in range(self.count)]
        for phase, (first, stop) in reversed([*enumerate(phases)]):
            bands = [self.part(node, phase, first, stop, rows) for node, rows in enumerate(own)]
            parts[:0] = bands
            if first == 0:
                break
            needs = [part.rows_of(part.cut.inputs[0].tensor) for part in bands]
            middles = [
                max(after.start, min(self._even(first, node).start, before.stop))
                for node, (before, after) in enumerate(itertools.pairwise(needs), 1)
            ]
            starts, stops = [needs[0].start, *middles], [*middles, needs[-1].stop]
            ends = zip(starts, stops, needs, strict=True)
            own = [range(start, min(stop, need.stop)) for start, stop, need in ends]
        return self._split("rows", parts)

    def _split(self, kind: str, parts: Sequence[NodePart]) -> Split:
        states = {before.tensor for before, _ in self.network.states}
        ports = (port for port in self.network.graph.inputs if port.tensor not in states)
        inputs = {port.tensor: port.name for port in ports}
        return Split(kind, parts, self.count, self.wire, inputs)

    def _even(self, border: int, node: int) -> range:
        """Returns a node's share of the rows at a border."""
        height = self.network.graph.tensors[self.network.crossing(border)[0]].shape[0]
        return range(height * node // self.count, height * (node + 1) // self.count)

    def _thinned(self, borders: Sequence[int]) -> list[int]:
        """Returns at most MOST_BORDERS borders, those with the fewest bytes."""
        size = math.ceil(len(borders) / max(MOST_BORDERS, self.count))
        runs = (borders[n : n + size] for n in range(0, len(borders), size or 1))
        return [min(run, key=self.network.crossing_bytes) for run in runs]


def best_path(
    ends: Sequence[int],
    cost: Callable[[int, int, bool], Cost],
    best: str,
    steps: int | None = None,
) -> list[int] | None:
    """Returns the borders of the best path from the first end to the last, the one with the least
    RAM of those that are about as short. Plans only pieces whose lower bounds are the best.

    cost: from one border to another, exact or a lower bound
    steps: the number of steps of the path, if that is fixed
    """
    costs = {cut: cost(*cut, False) for cut in itertools.combinations(ends, 2)}
    exact: set[tuple[int, int]] = set()
    while True:
        limits = sorted({ram for ram, _ in costs.values()})
        within = ({cut: s for cut, (ram, s) in costs.items() if ram <= limit} for limit in limits)
        paths = [short for costs_s in within if (short := _shortest(ends, costs_s, steps))]
        most_s = math.inf if best == RAM or not paths else SLACK * min(paths)[0]
        path = next((path for seconds, path in paths if seconds <= most_s), None)
        bounds = {*itertools.pairwise(path or [])} - exact
        if not bounds:
            return path
        costs.update((cut, cost(*cut, True)) for cut in bounds)
        exact |= bounds


def _shortest(
    ends: Sequence[int], seconds: Mapping[tuple[int, int], float], steps: int | None
) -> tuple[float, list[int]] | None:
    """Returns the path with the least sum of seconds, and the sum."""
    # By border and number of steps, which counts only if it is fixed.
    paths: dict[tuple[int, int], tuple[float, list[int]]] = {(ends[0], 0): (0.0, [ends[0]])}
    for end in ends:
        for (border, number), (sum_s, path) in list(paths.items()):
            if (border, end) in seconds:
                key = end, number + 1 if steps is not None else 0
                longer = sum_s + seconds[border, end], [*path, end]
                paths[key] = min(paths.get(key, longer), longer)
    return paths.get((ends[-1], steps or 0))


def best_split(
    path: Path, count: int, wire: Wire, best: str, board: Board, options: CompileOptions
) -> tuple[Split, NodePart]:
    """Returns the best split of a model file and the whole network on one node. Raises UserError
    if there is none, PlanError if a part computes another byte than the whole."""
    search = SplitSearch(read_network(path, options), count, wire, board, options)
    splits = [split for split in (search.pipeline(best), search.rows(best)) if split is not None]
    if not splits:
        reason = f"the model cannot be cut into {count} parts"
        raise UserError(Problem(reason, "try fewer nodes with --nodes", str(path)))

    def rank(split: Split) -> tuple[float, ...]:
        ram = max(map(split.ram_bytes, range(count)))
        return (ram, split.latency_s) if best == RAM else (split.latency_s, ram)

    chosen = min(splits, key=rank)
    check_parts(search.network.graph, chosen)
    return chosen, search.part(0, 0, 0, len(search.network.graph.nodes))
