# SPDX-License-Identifier: Apache-2.0
"""Distances, plans and their proof, against brute force."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pulp
import pytest
from joint_program import JointProgram, layers_one_by_one, plan_from
from random_builder import Builder
from random_graphs import LAYERS, convolution, disjoint, plan_at, random_layers
from random_networks import wide
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph, Node, Port, Tensor, Window
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.machine.rotation import RotatedMcu
from vmcu_tools.ops import NEVER, Layer, bind
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.plan.plan import Placement, Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.overlap import Clearance, clearance
from vmcu_tools.planner.registry import PLANNERS, make_plan
from vmcu_tools.quant import FixedPoint, FixedSum

TICKS = 1 << 40

# Of a replay, in sizes of the largest tensor.
MOST_MEMORY = 45
SOLVER = "highs" if pulp.HiGHS(msg=False).available() else "cbc"


def brute_clearance(layer: Layer, index: int) -> Clearance:
    """All unsafe distances, pair by pair."""
    reads = layer.last_reads(index).ravel()
    writes = layer.writes().ravel()
    unsafe = [
        k - j for j, read in enumerate(reads) for k, write in enumerate(writes) if write < read
    ]
    if not unsafe:
        return Clearance(-len(reads), len(writes))
    return Clearance(max(unsafe) + 1, min(unsafe) - 1)


def directions(layer: Layer) -> list[bool]:
    return [False, True] if layer.can_descend else [False]


@pytest.mark.parametrize("kind", LAYERS)
def test_clearance_is_that_of_brute_force(kind: str) -> None:
    compared = 0
    for seed in range(60):
        graph = random_layers(kind, 1, seed=1000 + seed)
        node = graph.nodes[0]
        if bind(graph, node).out.bytes * graph.tensors[node.inputs[0]].bytes > 200_000:
            continue
        for descending in directions(bind(graph, node)):
            layer = bind(graph, node, descending)
            for index in range(len(layer.ins)):
                assert clearance(layer, index) == brute_clearance(layer, index), (seed, descending)
                compared += 1
    assert compared >= 30


class Network:
    """A random network of convolutions and additions with branches."""

    def __init__(self, seed: int, nodes: int = 9):
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        shape = (int(self.rng.integers(3, 8)), int(self.rng.integers(3, 8)), 4)
        first = self.tensor(shape)
        for _ in range(nodes):
            self.grow()
        used = {name for node in self.nodes for name in node.inputs}
        self.outputs = [name for name in self.tensors if name not in used]
        self.input = first.name

    def tensor(self, shape: tuple[int, int, int]) -> Tensor:
        tensor = Tensor(f"t{len(self.tensors)}", shape, 0.1, int(self.rng.integers(-9, 9)))
        self.tensors[tensor.name] = tensor
        return tensor

    def grow(self) -> None:
        recent = list(self.tensors.values())[-4:]
        source = recent[self.rng.integers(len(recent))]
        twins = [t for t in recent if t.shape == source.shape and t is not source]
        kind = self.rng.integers(4)
        if kind == 0 and twins:
            twin = twins[self.rng.integers(len(twins))]
            half = FixedPoint.of(np.array([0.5]))
            out = FixedPoint.of(np.array([2.0**-19]))
            self.node(Add(FixedSum(half, half, out)), source.shape, source, twin)
        elif kind == 1:
            window = Window((3, 3), pad=(1, 1, 1, 1))
            weights = self.weights(3, 3, source.shape[2])
            scale, bias = self.scales(source.shape[2])
            self.node(DepthwiseConv2D(weights, bias, window, scale), source.shape, source)
        else:
            count = int(self.rng.integers(1, 10))
            k = int(self.rng.choice([1, 3]))
            window = Window((k, k), pad=(k // 2,) * 4)
            weights = self.weights(count, k, k, source.shape[2])
            scale, bias = self.scales(count)
            self.node(Conv2D(weights, bias, window, scale), (*source.shape[:2], count), source)

    def weights(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def scales(self, count: int) -> tuple[FixedPoint, np.ndarray]:
        return FixedPoint.of(2.0 ** self.rng.uniform(-12, -8, count)), np.zeros(count, np.int32)

    def node(self, op, shape: tuple[int, int, int], *inputs: Tensor) -> None:
        out = self.tensor(shape)
        names = tuple(tensor.name for tensor in inputs)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, names, (out.name,)))

    def graph(self) -> Graph:
        def port(name: str) -> Port:
            return Port(name, name, (1, *self.tensors[name].shape), "int8")

        outputs = tuple(port(name) for name in self.outputs)
        nodes = tuple(self.nodes)
        return Graph("random", "", self.tensors, nodes, (port(self.input),), outputs)

    def sample(self) -> list[np.ndarray]:
        return [self.rng.integers(-128, 128, self.tensors[self.input].shape).astype(np.int8)]


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("seed", range(12))
def test_plans_of_branching_networks_hold(planner: str, seed: int) -> None:
    network = Network(seed)
    plan = make_plan(network.graph(), CompileOptions(planner=planner))
    sample = network.sample()
    meaning = reference.run(plan.graph, sample)
    for name, values in VirtualMcu(plan).run(sample).items():
        np.testing.assert_array_equal(values, meaning[name])


@pytest.mark.parametrize("seed", [0, 2, 3, 6])
def test_the_joint_integer_program_finds_nothing_better(seed: int) -> None:
    """Order search and ejection search, one after the other, against MODeL's one program."""
    graph = Network(seed, 6).graph()
    known = smallest_pool.plan(graph)
    program = JointProgram(graph, known.pool_bytes + 50)
    proof = program.solve(SOLVER, 60)
    assert proof.bound == known.pool_bytes == smallest_pool.least(known)
    plan = plan_from(graph, proof, program.descending)
    assert plan.pool_bytes == proof.bound
    VirtualMcu(plan).prove()


def test_a_relaxation_is_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """CBC leaves one when its time is over, and pulp calls it feasible."""
    program = JointProgram(Network(0, 6).graph(), 1 << 20)
    solve = program.ilp.solve

    def ended(solver: object) -> None:
        solve(solver)
        for variable in program.ilp.variables():
            variable.varValue = 0.5
        program.ilp.sol_status = pulp.LpSolutionIntegerFeasible

    assert program.solve(SOLVER, 60).order is not None
    monkeypatch.setattr(program.ilp, "solve", ended)
    assert program.solve(SOLVER, 60).order is None


@pytest.mark.parametrize("seed", range(12))
def test_directions_never_cost_memory(seed: int) -> None:
    graph = Network(seed).graph()
    assert (
        make_plan(graph).pool_bytes <= make_plan(graph, CompileOptions(planner="single")).pool_bytes
    )


def is_corrupt(plan: Plan) -> bool:
    """True if some write destroys a byte that is still to be read, tensor by tensor."""
    graph = plan.graph
    reads = {name: np.full(t.bytes, NEVER, np.int64) for name, t in graph.tensors.items()}
    writes = {port.tensor: np.full(graph.tensors[port.tensor].bytes, -1) for port in graph.inputs}
    for number, step in enumerate(plan.steps):
        layer = bind(graph, step.node, step.descending)
        start = (number + 1) * TICKS
        writes[layer.out.name] = layer.writes().ravel() + start
        for index, tensor in enumerate(layer.ins):
            if tensor.name not in writes:
                return True
            ticks = layer.last_reads(index).ravel()
            times = np.where(ticks == NEVER, NEVER, ticks + start)
            reads[tensor.name] = np.maximum(reads[tensor.name], times)
    for port in graph.outputs:
        reads[port.tensor][:] = np.iinfo(np.int64).max
    splits = any(
        (p.base + row) % plan.pool_bytes + stride > plan.pool_bytes
        for p in plan.placements.values()
        for stride in [plan.graph.tensors[p.tensor].row_bytes]
        for row in range(0, p.ring, stride)
    )
    if splits:
        return True

    bases = {name: placement.base for name, placement in plan.placements.items()}
    for number, step in enumerate(plan.steps):
        if step.scratch_bytes:
            name, start = f"scratch of {number}", (number + 1) * TICKS
            bases[name] = step.scratch
            writes[name] = np.full(step.scratch_bytes, start)
            reads[name] = np.full(step.scratch_bytes, start + TICKS - 1)

    def spread(name: str, times: np.ndarray, missing: int) -> np.ndarray:
        """Times of a tensor's bytes by their address in the pool."""
        spread = np.full(plan.pool_bytes, missing, np.int64)
        spread[(bases[name] + np.arange(len(times))) % plan.pool_bytes] = times
        return spread

    for old in bases:
        stored = spread(old, writes[old], np.iinfo(np.int64).max)
        needed = spread(old, reads[old], -1)
        for new in bases:
            written = spread(new, writes[new], -2)
            if old != new and ((written >= stored) & (written < needed)).any():
                return True
    return False


def mutants(plan: Plan, rng: np.random.Generator) -> list[Plan]:
    """The plan with one thing changed."""
    names = list(plan.placements)
    found = []
    for name in names:
        placement = plan.placements[name]
        for shift in rng.integers(-60, 61, 4):
            moved = replace(placement, base=placement.base + int(shift))
            found.append(replace(plan, placements={**plan.placements, name: moved}))
    for number, stage in enumerate(plan.stages):
        if bind(plan.graph, stage[0].node).can_descend:
            turned = (replace(stage[0], descending=not stage[0].descending),)
            stages = (*plan.stages[:number], turned, *plan.stages[number + 1 :])
            found.append(replace(plan, stages=stages))
        if number:
            before, after = plan.stages[number - 1 : number + 1]
            swapped = (*plan.stages[: number - 1], after, before, *plan.stages[number + 1 :])
            found.append(replace(plan, stages=swapped))
    return found


def test_the_proof_rejects_exactly_the_corrupt() -> None:
    rng = np.random.default_rng(0)
    corrupt = sound = 0
    for seed in range(8):
        plan = layers_one_by_one(Network(seed).graph())
        assert not is_corrupt(plan)
        for mutant in mutants(plan, rng):
            try:
                VirtualMcu(mutant).prove()
                proven = True
            except PlanError:
                proven = False
            assert proven != is_corrupt(mutant)
            corrupt += not proven
            sound += proven
    assert corrupt >= 200 and sound >= 10


def test_the_proof_rejects_lost_rows() -> None:
    """A ring with a row too few for its consumer's window."""
    rejected = 0
    for seed in range(8):
        plan = disjoint(Network(seed).graph())
        for name, placement in plan.placements.items():
            stride = plan.graph.tensors[name].row_bytes
            if placement.ring == stride or name in {p.tensor for p in plan.graph.inputs}:
                continue
            ring = replace(placement, ring=placement.ring - stride)
            with pytest.raises(PlanError):
                VirtualMcu(replace(plan, placements={**plan.placements, name: ring})).prove()
            rejected += 1
    assert rejected >= 30


def copies() -> Graph:
    """x to a to b, each 4 x 2 x 1 bytes."""
    tensors = {name: Tensor(name, (4, 2, 1), 1.0, 0) for name in "xab"}
    nodes = tuple(
        Node(f"to {out}", Requantize(None), (source,), (out,)) for source, out in ("xa", "ab")
    )
    ports = tuple(Port(name, name, (1, 4, 2, 1), "int8") for name in "xb")
    return Graph("copies", "", tensors, nodes, ports[:1], ports[1:])


def refusal(plan: Plan) -> str:
    with pytest.raises(PlanError) as caught:
        VirtualMcu(plan).prove()
    return str(caught.value)


def test_a_refusal_names_step_tensor_and_byte() -> None:
    graph = copies()
    apart = {"x": 0, "a": 8, "b": 16}
    VirtualMcu(plan_at(graph, apart, 24)).prove()
    assert refusal(plan_at(graph, {**apart, "a": 5}, 24)) == (
        "step 'to a', row 0: writing byte 0 of tensor 'a' (pool byte 5) destroys a live byte; "
        "it holds byte 1 of row 2 of tensor 'x'"
    )
    plan = plan_at(graph, apart, 24)
    assert refusal(replace(plan, stages=plan.stages[::-1])) == (
        "step 'to b', row 0: byte 0 of tensor 'a', of its row 0 (pool byte 8), is gone; "
        "it holds nothing"
    )
    outputs = (replace(graph.outputs[0], tensor="b"), replace(graph.outputs[0], tensor="a"))
    assert refusal(plan_at(replace(graph, outputs=outputs), {**apart, "b": 9}, 24)) == (
        "step 'to b', row 0: writing byte 0 of tensor 'b' (pool byte 9) destroys a live byte; "
        "it holds byte 1 of row 0 of tensor 'a'"
    )
    never = replace(plan, stages=plan.stages[:1])
    assert refusal(never) == "row 0 of output 'b' is gone at the end"
    beyond = replace(plan, pool_bytes=23)
    assert refusal(beyond) == (
        "row 3 of tensor 'b' at byte 22 is split by the pool's end (23 bytes)"
    )


@pytest.mark.parametrize("machine", [VirtualMcu, RotatedMcu])
def test_rings_are_pixels_in_the_pool(machine: type[VirtualMcu]) -> None:
    graph = copies()
    plan = plan_at(graph, {"x": 0, "a": 8, "b": 16}, 24)
    wide = replace(graph, tensors={**graph.tensors, "x": Tensor("x", (2, 2, 2), 1.0, 0)})
    for name, ring, there in (("a", 0, graph), ("a", 25, graph), ("x", 7, wide)):
        placements = {**plan.placements, name: replace(plan.placements[name], ring=ring)}
        with pytest.raises(PlanError, match=f"the ring of tensor '{name}' is no number of pixels"):
            machine(replace(plan, graph=there, placements=placements))
    machine(replace(plan, placements={**plan.placements, "a": Placement("a", 0, 24, 0, 0)}))


def test_a_refusal_names_scratch() -> None:
    graph = wide(0)
    plan = disjoint(graph)
    plan = replace(plan, pool_bytes=2 * plan.pool_bytes)
    step = next(step for step in plan.steps if step.scratch_bytes)
    out = plan.placements[step.node.outputs[0]]
    there = replace(out, base=step.scratch)
    found = refusal(replace(plan, placements={**plan.placements, out.tensor: there}))
    assert found.startswith(f"step '{step.node.name}', row 0: writing byte 0 of tensor")
    assert found.endswith("destroys a live byte; it holds scratch")
    low = replace(step, scratch_bytes=step.scratch_bytes - 1)
    odd = replace(step, scratch=step.scratch - 2)
    for other in (low, odd):
        stages = tuple((other,) if stage == (step,) else stage for stage in plan.stages)
        found = refusal(replace(plan, stages=stages))
        assert found == f"step '{step.node.name}': its scratch is too small or misaligned"


def test_a_replay_keeps_maps_of_few_tensors() -> None:
    """Eight convolutions of one size: times of each byte, eight bytes each, of the tensors that are
    alive and not of all."""
    b = Builder(np.random.default_rng(0))
    x = b.input((128, 128, 8))
    for _ in range(8):
        x = convolution(b, x, Window((3, 3), pad=(1, 1, 1, 1)), 128, 128, 8)
    plan = make_plan(b.graph([x.name]), prove=False)
    tracemalloc.start()
    try:
        VirtualMcu(plan).prove()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < MOST_MEMORY * x.bytes
