# SPDX-License-Identifier: Apache-2.0
"""Which layers run together: cuts of the execution order into stages.

A dynamic program over the places where a stage may end (vMCU paper, section 5.2, generalised).
What a stage needs is traced call by call: tensors from outside shrink as they are read, outputs
grow, rings of lines or tiles stand between. First the smallest peak over all cuts, then, among the
cuts that stay within it, the one that costs the fewest instructions: single layers before stages,
rows before tiles. Where that costs more than is allowed, a larger peak is taken that does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import Problem, UserError
from ..graph import Conv2D, DepthwiseConv2D, Graph
from ..kernels import Form, Layer
from ..plan import MOST_CALLS, Plan
from ..schedule import ONE_COLUMN, Tile, kept_outputs, stage_of, taken_columns
from . import joint
from .in_place import traced
from .layout import Binder, Cut, Layout, Memory
from .options import TILE_COST, Options
from .order import reordered
from .swing import packed, place, walked
from .tasks import tasks_of
from .trace import TooLargeError

# Tiles that are tried, the large before the small.
TILES: tuple[Tile, ...] = (None, 512, 256, 128, 64, 32)
# Whether layers may keep widened pixels in scratch, in the order in which that is tried.
DIRECT = (False, True)
# The most layers of a stage.
LONGEST = 64
# Estimates in instructions on a Cortex-M4, measured by `vmcu bench`: of a multiply-accumulate, of
# a call of a kernel beyond one for each row, and what joining a stage costs a layer.
PER_MAC = 1.9
PER_MAC_DIRECT = 0.4
PER_CALL = 190
PER_WINDOW = 410
PER_STRIP, PER_STRIP_CHANNEL = 760, 30
PER_LAYER = 100
# Columns that kernels work on together: depthwise ones, and others.
STRIP, PAIR = 4, 2
FRONT_STEP = 0.03
# More than any stage costs.
UNEASE = 1 << 40
# Parts of the peak that all other stages are kept within, in turn, until the tensors can be placed.
EASES = (1.0, 0.9, 0.8, 0.65)
NEVER = 1 << 62


@dataclass(frozen=True)
class Option:
    """A stage that could be, what it needs (bytes) and costs (instructions, besides those of its
    layers one by one)."""

    cut: Cut
    peak: int
    cost: int


@dataclass(frozen=True)
class Choice:
    """What a model may cost: bytes of RAM before tensors are placed, instructions besides those of
    layers one by one (a part of theirs, by estimate), and how many stages have several layers.
    Multiply-accumulates are the same in all."""

    pool_bytes: int
    extra_instructions: float
    stages: int


class Cutter:
    """The search over cuts of one graph in its order of nodes."""

    def __init__(self, graph: Graph, streamed: bool, tiles: Sequence[Tile] = TILES):
        self.graph, self.streamed, self.tiles = graph, streamed, tiles
        self.count = len(graph.nodes)
        self.binder = Binder(graph)
        singles = tuple(Cut(number, number + 1) for number in range(self.count))
        self.traced: dict[Cut, Option] = {}
        self.held: dict[Cut, int] = {}
        self.beyond: dict[Cut, int] = {}
        self.source = graph.tensors[graph.inputs[0].tensor] if streamed else None
        self.first = {port.tensor: -1 for port in graph.inputs}
        self.last = dict.fromkeys(graph.tensors, -1)
        for number, node in enumerate(graph.nodes):
            self.first[node.outputs[0]] = number
            for name in node.inputs:
                self.last[name] = number
        for port in graph.outputs:
            self.last[port.tensor] = self.count
        alone = Layout(graph, singles, binder=self.binder)
        bounds = [task.bound() for task in tasks_of(alone, both_ways=True)]
        self.single = bounds[len(graph.inputs) :]

    def least_peak(self, tiles: Sequence[Tile], known: int) -> int:
        """The smallest peak over all ways to cut; `known`: one that is reached."""
        best = [0] + [known] * self.count
        for stop in range(1, self.count + 1):
            for first in range(stop - 1, max(stop - LONGEST, 0) - 1, -1):
                if best[first] >= best[stop]:
                    continue
                for option in self.options(first, stop, best[stop] - 1, tiles):
                    best[stop] = min(best[stop], max(best[first], option.peak))
                    if option.peak <= best[first]:
                        break
        return best[self.count]

    def options(
        self, first: int, stop: int, limit: int, tiles: Sequence[Tile] | None = None
    ) -> Iterator[Option]:
        """The stages of nodes [first, stop) that need at most `limit` bytes."""
        if self.source is not None and first == 0 and stop <= self.last[self.source.name]:
            return
        streams = self.source is not None and first == 0
        if stop - first == 1 and not streams:
            if self.single[first] <= limit:
                yield Option(Cut(first, stop), self.single[first], 0)
            return
        seen: set[tuple[Layer, ...]] = set()
        for tile, direct in itertools.product(self.tiles if tiles is None else tiles, DIRECT):
            cut = Cut(first, stop, tile, direct)
            layers = self.binder.stage(cut)
            if layers in seen or any(calls_of(layer) > MOST_CALLS for layer in layers):
                continue
            seen.add(layers)
            found = self.known(cut, layers, limit)
            if found is not None and found.peak <= limit:
                yield found

    def known(self, cut: Cut, layers: tuple[Layer, ...], limit: int) -> Option | None:
        """A stage's needs and cost; None if it needs more than `limit`."""
        if cut not in self.traced:
            memory = Memory.of(layers).bytes
            held = self.known_held(replace(cut, direct=False), layers, limit - memory)
            if held is None:
                return None
            self.traced[cut] = Option(cut, memory + held, sum(map(extra_cost, layers)))
        return self.traced[cut]

    def known_held(self, cut: Cut, layers: tuple[Layer, ...], limit: int) -> int | None:
        """Bytes that tensors take in a stage; None if they are more than `limit`. Each is traced
        once, unless a first look went no further than a lower limit."""
        if cut in self.held:
            return self.held[cut]
        if limit <= self.beyond.get(cut, -1):
            return None
        try:
            self.held[cut] = self.trace(cut, layers, limit)
        except TooLargeError:
            self.beyond[cut] = limit
            return None
        return self.held[cut]

    def trace(self, cut: Cut, layers: tuple[Layer, ...], limit: int) -> int:
        """The most bytes of tensors at any call of a stage; raises TooLargeError where it is above
        `limit`."""
        nodes = self.graph.nodes[cut.first : cut.stop]
        source = self.source if cut.first == 0 else None
        taken = taken_columns(source, cut.tile)
        stage = stage_of(layers, kept_outputs(self.graph, nodes), source, taken)
        touched = {name for node in nodes for name in (*node.inputs, *node.outputs)}
        besides = 0
        for name, first in self.first.items():
            streamed = self.source is not None and name == self.source.name
            if first < cut.first and self.last[name] >= cut.first and name not in touched:
                besides += 0 if streamed else self.graph.tensors[name].bytes
        trace = traced(stage, limit - besides)
        dying = frozenset(name for name in touched if self.last[name] < cut.stop)
        return besides + trace.peak(dying)

    def cheapest(
        self, limit: int, ease: int | None = None, thorough: bool = False
    ) -> tuple[Cut, ...]:
        """The cuts within `limit` bytes that cost least, as far as `stages_from` looks. ease: bytes
        that stages should stay within where they can."""
        ease = limit if ease is None else ease
        best: list[tuple[int, tuple[Cut, ...]] | None] = [None] * (self.count + 1)
        best[0] = (0, ())
        for first in range(self.count):
            here = best[first]
            if here is None:
                continue
            for option in self.stages_from(first, limit, ease, thorough):
                stop = option.cut.stop
                cost = here[0] + option.cost + (UNEASE if option.peak > ease else 0)
                there = best[stop]
                if there is None or cost < there[0]:
                    best[stop] = (cost, (*here[1], option.cut))
        found = best[self.count]
        if found is not None:
            return found[1]
        assert not thorough, "the peak was reached by some cut"
        return self.cheapest(limit, ease, True)

    def cost(self, cuts: Sequence[Cut]) -> int:
        """What cuts cost, instructions."""
        return sum(self.traced[cut].cost for cut in cuts if cut in self.traced)

    @property
    def instructions(self) -> float:
        """Of the model without stages, by estimate."""
        layers = [self.binder.layer(number) for number in range(self.count)]
        return sum(PER_MAC * layer.macs + layer.out.bytes for layer in layers)

    def peak(self, cuts: Sequence[Cut]) -> int:
        """The bytes that the worst of a list of cuts needs."""
        return max(
            self.traced[cut].peak if cut in self.traced else self.single[cut.first] for cut in cuts
        )

    def front(self, least: int) -> list[Choice]:
        """Ever smaller peaks at ever higher cost, each a FRONT_STEP below the one before, down to
        the smallest."""
        found: list[Choice] = []
        limit = NEVER
        while True:
            cuts = self.cheapest(limit)
            peak, extra = self.peak(cuts), self.cost(cuts) / self.instructions
            found.append(Choice(peak, extra, sum(cut.stop - cut.first > 1 for cut in cuts)))
            if peak <= least:
                return found
            limit = max(least, int(peak * (1 - FRONT_STEP)))

    def within_budget(self, least: int, tile_cost: float) -> int:
        """The smallest peak from `least` on whose cheapest cuts cost no more than this part of the
        model's instructions."""
        budget = tile_cost * self.instructions
        if self.cost(self.cheapest(least)) <= budget:
            return least
        peaks = sorted({o.peak for o in self.traced.values() if o.peak > least})
        low, high = 0, len(peaks) - 1
        while low < high:
            middle = (low + high) // 2
            if self.cost(self.cheapest(peaks[middle])) <= budget:
                high = middle
            else:
                low = middle + 1
        return peaks[low] if peaks else least

    def stages_from(self, first: int, limit: int, ease: int, thorough: bool) -> Iterator[Option]:
        """Stages that begin at a node. Unless `thorough`, those that seem worth having: one that
        is followed by a layer which fits by itself gains nothing by taking that layer in, as long
        as what comes after it fits too."""
        for stop in range(first + 1, min(first + LONGEST, self.count) + 1):
            found = list(self.options(first, stop, limit))
            if not found:
                continue
            yield min(found, key=lambda option: option.cost)
            easy = [option for option in found if option.peak <= ease]
            if easy and ease < limit:
                yield min(easy, key=lambda option: option.cost)
            if thorough or stop == self.count:
                continue
            if self.single[stop] <= ease:
                return


def calls_of(layer: Layer) -> int:
    """How often a layer is called."""
    return layer.height * (layer.width // layer.columns)


def extra_cost(layer: Layer) -> int:
    """Instructions that a layer in tiles costs more than in rows, by estimate."""
    calls = calls_of(layer) - layer.height
    per_call, per_mac, block = PER_CALL, PER_MAC / 2, PAIR
    if isinstance(layer.op, DepthwiseConv2D):
        per_call, per_mac, block = PER_STRIP + PER_STRIP_CHANNEL * layer.out.shape[2], 3.0, STRIP
    elif isinstance(layer.op, Conv2D) and layer.op.window.kernel != (1, 1):
        per_call = PER_WINDOW
    wasted = idle(layer.columns, block) - idle(layer.width, block)
    slower = PER_MAC_DIRECT if layer.form is Form.DIRECT else 0.0
    return round(PER_LAYER + calls * per_call + (per_mac * wasted + slower) * layer.macs)


def idle(columns: int, block: int) -> float:
    """What a kernel that works in blocks of columns computes for nothing, a part of what counts."""
    return -(-columns // block) * block / columns - 1


def plan(graph: Graph, options: Options) -> Plan:
    """The default planner: stages, order and placement for the smallest pool, or, where there is
    a limit, for the fewest instructions within it.

    Raises UserError if the input cannot be streamed.
    """
    graph = reordered(graph)
    if not graph.nodes:
        return place("vmcu", Layout(graph, ()), options.seconds)
    cutter, least = searched(graph, options)
    plan = placed(cutter, cutter.within_budget(least, options.tile_cost), options)
    if options.ram is not None and plan.pool_bytes > options.ram:
        plan = placed(cutter, least, options)
    if options.ram is not None and options.ram > plan.pool_bytes:
        fast = placed(cutter, options.ram, options)
        plan = fast if fast.pool_bytes <= options.ram else plan
    if plan.pool_bytes > max(least, *cutter.single) and not options.stream_input:
        # The stages could not be placed without a gap; layers one by one perhaps can.
        single = replace(joint.plan(graph, options.seconds), planner="vmcu")
        plan = min(plan, single, key=lambda plan: plan.pool_bytes)
    return plan


def searched(graph: Graph, options: Options) -> tuple[Cutter, int]:
    """The search over a graph's cuts, and the smallest peak; UserError as plan()."""
    # Single columns waste half and more of what kernels compute: only for who would pay any price.
    tiles = TILES if options.tile_cost <= TILE_COST else (*TILES, ONE_COLUMN)
    cutter = Cutter(graph, options.stream_input, tiles)
    least = cutter.least_peak(tiles, cutter.least_peak(tiles[:1], NEVER))
    if least == NEVER:
        raise UserError(
            Problem(
                "its input cannot be streamed: too many layers need it",
                "leave out --stream-input",
                graph.origin,
            )
        )
    return cutter, least


def front(graph: Graph, options: Options) -> list[Choice]:
    """What the default planner can choose from, the fast and large before the slow and small."""
    cutter, least = searched(reordered(graph), options)
    return cutter.front(least)


def placed(cutter: Cutter, limit: int, options: Options) -> Plan:
    """The cheapest cuts within a limit, placed; if no place is found for their tensors, cuts that
    leave more room around the stage with the peak."""
    layouts: dict[tuple[Cut, ...], Layout] = {}
    for part in EASES:
        cuts = cutter.cheapest(limit, int(part * limit))
        if cuts in layouts:
            continue
        layouts[cuts] = Layout(cutter.graph, cuts, options.stream_input, cutter.binder)
        plan = walked("vmcu", layouts[cuts])
        if plan is not None:
            return plan
    share = options.seconds / len(layouts)
    plans = [packed("vmcu", layout, share) for layout in layouts.values()]
    return min(plans, key=lambda plan: plan.pool_bytes)
