# SPDX-License-Identifier: Apache-2.0
"""The tables of a model, as the executor on the device walks them.

`decode` turns the objects that were read back from the emitted C (tables.py) into a plan and the
calls of an inference, by the rules of lib/vmcu/executor.c and stage.c and of nothing else: the
schedule entry by entry, calls by how many a layer has made, in parts where the table says that a
ring may split them. The emitter claims which node a layer stands for; shapes, inputs and outputs
must bear the claim out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PlanError
from ..graph import EXCHANGED, Graph, Node, Port
from ..ops import Form, Layer, bind
from ..plan.plan import MOST_CALLS, Placement, Plan, Rotation, Step, pool_scratch
from ..plan.pools import (
    MOST_OF_SEVERAL,
    MOST_POOLS,
    POOL_NUMBER,
    Pool,
    Region,
    pool_at,
    pools_of,
)
from ..plan.schedule import Call
from . import streams
from .events import WHOLE, Called
from .kernel_params import Row
from .limits import check_members
from .parts import Taken, parts_of
from .tables import Address, Objects, expect
from .team import team_of

# VMCU_TAKE and VMCU_SCRATCH_ON_STACK.
TAKE = 255
# In place of an entry: the end of a stream's first hop.
END = -1
ON_STACK = "VMCU_SCRATCH_ON_STACK"


@dataclass(frozen=True)
class Claims:
    """The emitter's claims about tables: tensors and layers by their number, the form of each
    layer, and the plan's name and notes, which are for people."""

    tensors: tuple[str, ...]
    nodes: tuple[Node, ...]
    forms: tuple[Form, ...]

    @staticmethod
    def of(plan: Plan) -> Claims:
        """Collects the claims of a plan's emitter."""
        steps = plan.steps
        return Claims(
            plan.tensors,
            tuple(step.node for step in steps),
            tuple(step.form for step in steps),
        )


@dataclass(frozen=True, eq=False)
class Decoded:
    """plan: of the tables, with the graph they stand for; calls: by stage, those of an inference
    in order; rows, layers: by layer, its row of the table and the layer of it."""

    plan: Plan
    calls: tuple[tuple[Called, ...], ...]
    rows: tuple[Row, ...]
    layers: tuple[Layer[Any], ...]


def decode(objects: Objects, name: str, graph: Graph, claims: Claims) -> Decoded:
    """The plan that the tables of model `name` hold. Raises PlanError where they do not fit the
    graph, each other, or the limits of C."""
    return _Decoder(objects, name, graph, claims).run()


class _Decoder:
    def __init__(self, objects: Objects, name: str, graph: Graph, claims: Claims):
        self.objects, self.name, self.graph, self.claims = objects, name, graph, claims
        model = objects.values.get(f"{name}_model")
        expect(isinstance(model, dict), "there is no model")
        assert isinstance(model, dict)
        check_members(model, "vmcu_model")
        self.model = model
        self.bound: list[Layer[Any]] = []
        self.tensors = self._table("tensors", "vmcu_tensor")
        self.layers = self._table("layers", "vmcu_layer")
        self.stages = self._table("stages", "vmcu_stage")
        self.parts = self._part("parts", "vmcu_part")
        self.regions = self._regions()
        self.stream = streams.stream_of(objects, name, model)
        if self.stream is not None:
            check_members(self.stream, "vmcu_stream")

    def run(self) -> Decoded:
        self._check_model()
        placements = self._placements()
        steps = [self._step(number) for number in range(len(self.layers))]
        stages = self._grouped(steps)
        size, rotation = self._pool()
        plan = Plan(
            "emitted",
            self.graph,
            stages,
            placements,
            size,
            input_streamed=bool(self.model.get("streamed", 0)),
            taken=self.stages[0].get("taken", 0) if self.stages else 0,
            progress=tuple(map(self._progress, self.stages)),
            rotation=rotation,
            regions=self.regions,
            saved=streams.saved(self.stream, size),
            team=team_of(self.objects, self.name, len(steps)),
        )
        self._check_ports(plan)
        if self.stream is not None:
            layers = self.bound[: len(plan.stages[0])]
            streams.check_turns(self.objects, self.name, self.stream, plan, layers)
        calls = tuple(tuple(self._calls(plan, number)) for number in range(len(stages)))
        rows = tuple(self._row(layer) for layer in self.layers)
        return Decoded(plan, calls, rows, tuple(self.bound))

    def _table(self, label: str, kind: str) -> list[dict[str, Any]]:
        """A table that the model refers to; none where it does not."""
        named = self.model.get(label)
        if named is None:
            return []
        expect(named == f"{self.name}_{label}", f"{label} are taken from '{named}'")
        return self._part(label, kind)

    def _part(self, label: str, kind: str) -> list[dict[str, Any]]:
        table = self.objects.values.get(f"{self.name}_{label}", [])
        entries = isinstance(table, list) and all(isinstance(entry, dict) for entry in table)
        expect(entries, f"'{label}' is no table")
        assert isinstance(table, list)
        for entry in table:
            check_members(entry, kind)
        return table

    def _check_model(self) -> None:
        model, claims = self.model, self.claims
        graph = self.graph
        counts = {
            "tensor_count": (len(self.tensors), len(claims.tensors)),
            "layer_count": (len(self.layers), len(claims.nodes)),
            "stage_count": (len(self.stages), len(self.stages)),
            "input_count": (len(self._part("inputs", "vmcu_io")), len(graph.inputs)),
            "output_count": (len(self._part("outputs", "vmcu_io")), len(graph.outputs)),
        }
        for member, (there, wanted) in counts.items():
            stated = model.get(member, 0)
            expect(stated == there == wanted, f"{member} is {stated}, there are {there}")
        expect(model.get("name") == self.name, "the model's name is another")
        elsewhere = bool(model.get("elsewhere", 0))
        expect(elsewhere == bool(graph.elsewhere), "the input is not where callers are told")
        # Containers have no header.
        told = self.objects.macros.get(f"VMCU_MODEL_{self.name.upper()}_POOL_BYTES")
        size = model.get("pool_bytes", 0)
        expect(told in (None, str(size)), f"callers give a pool of {told} bytes, not of {size}")
        keeps = self.stream is not None
        expect(
            keeps == (graph.state.step_rows > 0), "it keeps what callers are not told, or does not"
        )

    def _pool(self) -> tuple[int, Rotation | None]:
        """Bytes of the circle, and how it rotates."""
        size = self.model.get("pool_bytes", 0)
        circle = self.model.get("circle", 0)
        if self.regions:
            expect(circle == 0, "several pools rotate")
            return self._pools()[-1].stop, None
        if circle == 0:
            expect("step" not in self.model, "a pool advances that does not rotate")
            return size, None
        return circle, Rotation(self.model.get("step", 0), size - circle)

    def _regions(self) -> tuple[Region, ...]:
        """The pools of a model that has several, named by their number."""
        count, sizes = self.model.get("pool_count", 0), self.model.get("pools", [])
        listed = isinstance(sizes, list) and len(sizes) == count <= MOST_POOLS
        expect(listed, f"{count} pools have other sizes, or are too many")
        assert isinstance(sizes, list)
        fits = all(isinstance(size, int) and 0 <= size <= MOST_OF_SEVERAL for size in sizes)
        expect(fits, "a pool is larger than an address can say")
        total = self.model.get("pool_bytes", 0)
        expect(not count or sum(sizes) == total, f"all pools together are not {total} bytes")
        return tuple(Region(f"pool {n}", size, 0.0, size) for n, size in enumerate(sizes))

    def _place(self, at: int, what: str) -> int:
        """An address as plans have it."""
        if not self.regions:
            return at
        circles = self._pools()
        number, byte = at >> POOL_NUMBER, at & (1 << POOL_NUMBER) - 1
        inside = number < len(circles) and byte < circles[number].size
        expect(inside, f"{what} is in no pool")
        return circles[number].start + byte

    def _progress(self, stage: dict[str, Any]) -> int:
        at = stage.get("progress", 0)
        return self._place(at, "a stage's progress") if "schedule" in stage else at

    def _pools(self) -> tuple[Pool, ...]:
        if not self.regions:
            return (Pool(0, self._pool()[0]),)
        return pools_of([region.pool_bytes for region in self.regions])

    def _placements(self) -> dict[str, Placement]:
        placements, circles = {}, self._pools()
        for name, entry in zip(self.claims.tensors, self.tensors, strict=True):
            shape = tuple(entry.get(member, 0) for member in ("height", "width", "channels"))
            expect(shape == self.graph.tensors[name].shape, f"tensor '{name}' is {shape}")
            base, ring = entry.get("base", 0), entry.get("ring", 0)
            if name in self.graph.elsewhere:
                expect(not base and not ring, f"'{name}' is in the pool")
                continue
            base = self._place(base, f"the ring of '{name}'")
            circle = pool_at(circles, base)
            # vmcu_pool_byte() looks around the pool's end once.
            inside = circle is not None and 0 < ring <= circle.size
            expect(inside, f"the ring of '{name}' is not in the pool")
            phase = entry.get("phase", 0)
            expect(not ring % shape[2] and not phase % shape[2], f"'{name}' splits pixels")
            placements[name] = Placement(name, base, ring, 0, 0, phase)
        return placements

    def _step(self, number: int) -> Step:
        """A layer as the plan has it, once its tensors are those of its node."""
        entry, node = self.layers[number], self.claims.nodes[number]
        who = f"layer {number}"
        first, count = self._address(entry, "inputs", "layer_inputs"), entry.get("input_count", 0)
        table = self.objects.values[f"{self.name}_layer_inputs"]
        assert isinstance(table, np.ndarray)
        expect(first + count <= len(table), f"{who} reads beyond the table of inputs")
        inputs = tuple(self._tensor(int(index)) for index in table[first : first + count])
        expect(inputs == node.inputs, f"{who} reads {inputs}")
        expect(self._tensor(entry.get("output", 0)) == node.outputs[0], f"{who} writes another")
        expect(entry.get("descending", 0) in (0, 1), f"{who} has no direction")
        alone = self._stage_of(number).get("schedule") is None
        columns = None if alone else entry.get("columns", 0)
        form = self.claims.forms[number]
        forward = not entry.get("descending", 0)
        able = forward or bind(self.graph, node, form=form).can_descend
        expect(able, f"{who} cannot work from its last row to its first")
        step = Step(node, 0, 0, bool(entry.get("descending", 0)), None, columns, form)
        layer = step.bind(self.graph)
        self.bound.append(layer)
        rows, width = entry.get("rows", 0), entry.get("width", 0)
        expect((rows, width) == (layer.height, layer.width), f"{who} has {rows} x {width} calls")
        within = 1 <= entry.get("columns", 0) <= width
        expect(within and (not alone or entry.get("columns") == width), f"{who} has other columns")
        scratch, needed = entry.get("scratch", 0), pool_scratch(layer)
        elsewhere = isinstance(scratch, int) if needed else scratch == ON_STACK
        expect(elsewhere, f"{who} has its scratch at {scratch}")
        if needed == 0:
            return step
        scratch = self._place(scratch, f"the scratch of {who}")
        return Step(node, scratch, needed, step.descending, None, columns, form)

    def _tensor(self, index: int) -> str:
        expect(index < len(self.claims.tensors), f"there is no tensor {index}")
        return self.claims.tensors[index]

    def _address(self, entry: dict[str, Any], member: str, label: str) -> int:
        """Which element of a table a member points to."""
        value = entry.get(member)
        expect(
            isinstance(value, Address) and value.name == f"{self.name}_{label}",
            f"'{member}' points to {value}",
        )
        assert isinstance(value, Address)
        return value.index

    def _row(self, entry: dict[str, Any]) -> Row:
        params = entry.get("params")
        name = params.name if isinstance(params, Address) else ""
        within = isinstance(params, Address) and params.index != 0
        expect(not within, f"parameters are within '{name}'")
        return Row(str(entry.get("kernel")), name)

    def _stage_of(self, number: int) -> dict[str, Any]:
        for stage in self.stages:
            if stage.get("first", 0) <= number < stage.get("first", 0) + stage.get("count", 0):
                return stage
        raise PlanError(f"the emitted tables are wrong: layer {number} is in no stage")

    def _grouped(self, steps: Sequence[Step]) -> tuple[tuple[Step, ...], ...]:
        """The steps by stage; every layer is in one, in order."""
        groups, next_ = [], 0
        for stage in self.stages:
            first, count = stage.get("first", 0), stage.get("count", 0)
            expect(first == next_ and count > 0, "stages do not follow one another")
            next_ = first + count
            groups.append(tuple(steps[first:next_]))
        return tuple(groups)

    def _check_ports(self, plan: Plan) -> None:
        """Inputs and outputs are those of the graph, and where callers look for them."""
        graph = self.graph
        for label, ports in (("inputs", graph.inputs), ("outputs", graph.outputs)):
            entries = self._part(label, "vmcu_io")
            expect(self.model.get(label) == f"{self.name}_{label}", f"{label} are elsewhere")
            for entry, port in zip(entries, ports, strict=True):
                self._check_port(entry, port)
                held = port in graph.held and not plan.input_streamed
                if label == "outputs" or held:
                    self._check_border(plan, port)

    def _check_port(self, entry: dict[str, Any], port: Port) -> None:
        tensor = self.graph.tensors[port.tensor]
        expect(self._tensor(entry.get("tensor", 0)) == port.tensor, f"'{port.name}' is another")
        scale = entry.get("scale", 0)
        same = isinstance(scale, float) and np.float32(scale) == np.float32(tensor.scale)
        expect(bool(same), "a scale is another")
        expect(entry.get("zero_point", 0) == tensor.table_zero, "a zero point is another")
        flags = set(str(entry.get("flags", "")).split(" | ")) - {""}
        wanted = {"VMCU_IO_CHANNELS_FIRST"} if port.layout[1] == "c" else set()
        wanted |= {"VMCU_IO_COLUMNS"} if port.layout in EXCHANGED.values() else set()
        wanted |= {"VMCU_IO_HALF_AWAY"} if port.half_away else set()
        wanted |= {"VMCU_IO_WIDE"} if port.is_wide else set()
        expect(flags == wanted, f"the flags of '{port.name}' are {sorted(flags)}")

    def _check_border(self, plan: Plan, port: Port) -> None:
        """Callers see inputs and outputs as one array, or, in a pool that rotates, row by row."""
        placement, tensor = plan.placements[port.tensor], self.graph.tensors[port.tensor]
        size = plan.graph.rows_at_once(port) * tensor.row_bytes
        whole = placement.ring == size if plan.graph.state.step_rows else placement.ring >= size
        straight = placement.phase % placement.ring == 0 and whole
        circle = plan.pool_of(placement.base)
        around = placement.base + size > circle.stop and plan.rotation is None
        expect(straight and not around, f"'{port.name}' is not one piece of the pool")

    def _calls(self, plan: Plan, number: int) -> Iterator[Called]:
        """The calls of a stage, as the executor makes them."""
        stage, steps = self.stages[number], plan.stages[number]
        layers = self.bound[stage.get("first", 0) :]
        streamed = plan.input_streamed and number == 0
        if "schedule" not in stage:
            layer = layers[0]
            for turn in range(layer.height):
                yield steps[0], layer, Call(WHOLE, layer.turn(turn), 0, layer.width)
            return
        expect(not any(step.descending for step in steps), "a stage of several layers descends")
        made, taken = [0] * len(steps), Taken(plan) if streamed else None
        call, first = None, 0
        for entry in self._entries(stage, self.stream is not None and number == 0):
            if entry <= END:
                assert taken is not None
                first = first or taken.y
                streams.check_hop(plan, layers[len(steps) - 1], END - entry, call, taken.y, first)
                continue
            if entry == TAKE:
                expect(taken is not None, "a stage takes rows that nobody delivers")
                assert taken is not None
                for call in taken.next(stage.get("taken", 0)):
                    yield None, None, call
                continue
            expect(entry < len(steps), f"the schedule calls layer {entry} of {len(steps)}")
            layer, row = layers[entry], self.layers[stage.get("first", 0) + entry]
            across = -(-layer.width // layer.columns)
            y, place = divmod(made[entry], across)
            made[entry] += 1
            within = y < layer.height and made[entry] <= MOST_CALLS
            expect(within, f"layer {entry} of a stage is called too often")
            call = Call(entry, y, place * layer.columns, layer.columns)
            call = call._replace(columns=min(call.columns, layer.width - call.x))
            for part in parts_of(plan, layer, row.get("splits", 0), call):
                yield steps[entry], layer, part

    def _entries(self, stage: dict[str, Any], unbounded: bool) -> Iterator[int]:
        """The schedule of a stage, part by part; of one that never ends END and less where a hop
        does."""
        first = self._address(stage, "parts", "parts")
        start = self._address(stage, "schedule", "schedule")
        schedule = self.objects.values[f"{self.name}_schedule"]
        assert isinstance(schedule, np.ndarray)
        count = stage.get("part_count", 0)
        expect(first + count <= len(self.parts), "a stage has parts that are not there")
        if unbounded:
            streams.check_parts(self.parts[first : first + count])
        hops = 0
        for part in self.parts[first : first + count]:
            begin = start + part.get("start", 0)
            end = begin + part.get("length", 0)
            expect(end <= len(schedule), "a part is longer than the schedule")
            for _ in range(part.get("times", 0)):
                yield from schedule[begin:end].tolist()
                if unbounded:
                    yield END - hops
                    hops += 1
