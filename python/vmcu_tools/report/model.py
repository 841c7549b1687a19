# SPDX-License-Identifier: Apache-2.0
"""The figures of a plan. `asdict` of a ModelReport is the JSON that `vmcu build --json` writes."""

from __future__ import annotations

from dataclasses import dataclass

from ..ops import bind
from ..plan.accesses import by_region
from ..plan.plan import Plan
from ..plan.turns import first_rows, macs_of_hop
from ..planner.stages.costs import cycles_of
from .page.lives import Lives, lives_of
from .page.names import names_of
from .page.peak import peak_of
from .weights import WeightsReport, weights_report


@dataclass(frozen=True)
class StepReport:
    """`pool_bytes`: bytes of the pool that hold something needed while the step runs; `cycles`: by
    estimate, see cycles.py."""

    name: str
    op: str
    pool_bytes: int
    macs: int
    weights_bytes: int = 0
    cycles: int = 0


@dataclass(frozen=True)
class TensorReport:
    """`capacity_rows`: how much of it exists at once, a fraction where its ring splits rows.
    `first` and `last`: the steps that write and last read it; -1 and the number of steps stand
    for the caller."""

    name: str
    bytes: int
    base: int
    capacity_rows: float
    first: int
    last: int


@dataclass(frozen=True)
class MemoryReport:
    """One of several memories: bytes of the pool in it and of all of it; bytes that an inference
    loads and stores there, as far as programs tell, and their part of those in all pools; cycles
    that each waits."""

    name: str
    pool_bytes: int
    capacity: int
    accesses: int
    share: float
    wait: float


@dataclass(frozen=True)
class KeptReport:
    """A tensor of which `rows` rows, `bytes` bytes, stay from one answer to the next."""

    tensor: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class AnewReport:
    """`layers` layers, the first of which is `first`, that are computed over kept windows for
    each hop, with `macs` multiply-accumulates, why, and the remedy; `others`: layers that do not
    stream either and read nothing but those that do."""

    first: str
    op: str
    reason: str
    remedy: str
    others: tuple[str, ...]
    layers: int
    macs: int


@dataclass(frozen=True)
class HopReport:
    """A window of `window` rows that moves by `rows` from one answer to the next; the first
    comes after `first` of them. macs_window: multiply-accumulates of a window as a whole;
    state_bytes: bytes of the pool that stay from one answer to the next, those of all `kept`, of
    which some share a ring. `variables` of the file, where it keeps its state by itself; a
    window is then the input of a call; computed: by layers, from their values before. `anew`:
    the layers that are computed for each window as a whole; None for nothing."""

    rows: int
    window: int
    first: int
    macs_window: int
    state_bytes: int
    kept: tuple[KeptReport, ...]
    variables: int = 0
    computed: bool = False
    anew: AnewReport | None = None


@dataclass(frozen=True)
class ModelReport:
    """All sizes in bytes. `pool_bytes`: all RAM, the buffer for weights too. `macs` counts taps
    in the padding; `macs_extra` recomputed ones; `macs_file` is the file's own number, more
    where constant channels were left out: `left_out` of `channels` of all tensors.
    `input_elsewhere`: the input is read where the caller has it, and no part of `pool_bytes`.
    `memories`: where there are several pools. `rotation_step`: by which the pool's origin
    advances, 0: not at all; `rotation_overhang`: the bytes of `pool_bytes` for that. `hop`:
    where
    the window moves; all multiply-accumulates but the file's are of a hop. `fields`: inputs
    that
    are one row, with their bytes. `peak_step`: the layer that needs the most bytes of the pool,
    -1 while the caller writes the input; `peak`: why it does. `weights`: of constants in a
    file,
    which `weights_bytes` does not include."""

    model: str
    planner: str
    pool_bytes: int
    tables_bytes: int
    weights_bytes: int
    macs: int
    macs_extra: int
    macs_file: int
    channels: int
    left_out: int
    solve_seconds: float
    input_streamed: bool
    fields: tuple[tuple[str, int], ...]
    input_elsewhere: bool
    steps: tuple[StepReport, ...]
    tensors: tuple[TensorReport, ...]
    notes: tuple[str, ...] = ()
    rotation_step: int = 0
    rotation_overhang: int = 0
    memories: tuple[MemoryReport, ...] = ()
    hop: HopReport | None = None
    peak_step: int = -1
    peak: str = ""
    weights: WeightsReport | None = None


def report(
    plan: Plan, name: str, tables_bytes: int, weights_bytes: int, cycle_s: float | None = None
) -> ModelReport:
    """The figures of a plan whose tables have been emitted under `name`. cycle_s: as
    weights_report() has it."""
    graph = plan.graph
    lives = lives_of(plan)
    peak_step, peak = _peak(plan, lives)
    each = (
        macs_of_hop(plan)
        if graph.state.step_rows
        else [bind(graph, s.node).macs for s in plan.steps]
    )
    steps = [
        StepReport(step.node.name, step.node.kind, used, macs, *costs)
        for step, used, macs, costs in zip(
            plan.steps, lives.by_step, each, _costs(plan, each), strict=True
        )
    ]
    tensors = tuple(
        TensorReport(
            p.tensor,
            graph.tensors[p.tensor].bytes if not graph.state.step_rows else p.ring,
            p.base,
            round(p.ring / graph.tensors[p.tensor].row_bytes, 3),
            p.first,
            p.last,
        )
        for p in plan.placements.values()
    )
    macs = sum(step.macs for step in steps) - plan.macs_extra
    left_out = plan.model.left_out
    return ModelReport(
        model=name,
        planner=plan.planner,
        pool_bytes=plan.ram_bytes + plan.buffer_bytes,
        tables_bytes=tables_bytes,
        weights_bytes=weights_bytes,
        macs=macs,
        macs_extra=plan.macs_extra,
        macs_file=plan.model.macs_file
        or (
            sum(bind(plan.model, n).macs for n in plan.model.nodes)
            if graph.state.step_rows
            else macs
        ),
        channels=sum(tensor.shape[2] for tensor in plan.model.tensors.values()) + left_out,
        left_out=left_out,
        solve_seconds=round(plan.solve_seconds, 3),
        input_streamed=plan.input_streamed,
        fields=tuple((one.port.name, one.tensor.bytes) for one in plan.model.state.row_fields),
        input_elsewhere=bool(graph.elsewhere),
        steps=tuple(steps),
        tensors=tensors,
        notes=plan.notes,
        rotation_step=plan.rotation.step if plan.rotation else 0,
        rotation_overhang=plan.rotation.overhang if plan.rotation else 0,
        memories=memories(plan),
        hop=hop_of(plan),
        peak_step=peak_step,
        peak=peak,
        weights=weights_report(plan, cycle_s),
    )


def _peak(plan: Plan, lives: Lives) -> tuple[int, str]:
    """The layer that needs the most bytes, -1 for the caller's input, and why."""
    names = names_of(plan)
    peak, most = peak_of(lives, names), max(lives.by_step, default=0)
    if peak.bytes >= most:
        return peak.step, peak.sentence
    # Only layers that recompute their window, of which no single call is looked at, need more.
    step = lives.by_step.index(most)
    name = names[plan.steps[step].node.name]
    return step, (
        f"The peak is layer {step} ({name}). It needs {most:,} of {plan.pool_bytes:,} bytes."
    )


def _costs(plan: Plan, macs: list[int]) -> list[tuple[int, int]]:
    """Returns for each step bytes of weights, and cycles; those of a hop where there are many,
    as the multiply-accumulates are."""
    costs = []
    for step, cycles, each in zip(plan.steps, cycles_of(plan), macs, strict=True):
        layer = bind(plan.graph, step.node)
        part = each / layer.macs if layer.macs else 1.0
        costs.append((layer.weight_bytes, round(cycles * part)))
    return costs


def hop_of(plan: Plan) -> HopReport | None:
    """Reports the state of a plan; None if nothing of it goes from one inference to the next."""
    if not plan.graph.state.step_rows:
        return None
    model = plan.model
    kept = tuple(
        KeptReport(name, plan.placements[name].ring // plan.graph.tensors[name].row_bytes, ring)
        for name in plan.kept
        for ring in (plan.placements[name].ring,)
    )
    window = model.tensors[model.inputs[0].tensor].shape[0]
    macs = sum(bind(model, node).macs for node in model.nodes)
    rings = {(plan.placements[name].base, plan.placements[name].ring) for name in plan.kept}
    state = sum(size for _, size in rings)
    rows, variables = plan.graph.state.step_rows, len(model.state.names)
    computed = bool(model.state.recurrent)
    return HopReport(
        rows, window, first_rows(plan), macs, state, kept, variables, computed, anew_of(plan)
    )


def anew_of(plan: Plan) -> AnewReport | None:
    """Reports the layers that are computed for each hop as a whole, where a window is more than
    a hop."""
    unbounded = plan.graph.state.unbounded_nodes
    if not unbounded or plan.model.state.names:
        return None
    from ..passes.state.streaming import split_unbounded

    first, *others = split_unbounded(plan.model, plan.graph.state.step_rows).reasons
    behind = [bind(plan.graph, node) for node in plan.graph.nodes[unbounded:]]
    own = [layer for layer in behind if not layer.node.op.window_source(layer.node.inputs)]
    macs = sum(layer.macs for layer in own)
    names = tuple(problem.node for problem in others)
    return AnewReport(first.node, first.op, first.reason, first.remedy, names, len(own), macs)


def memories(plan: Plan) -> tuple[MemoryReport, ...]:
    """The memories of a plan with several pools."""
    if not plan.regions:
        return ()
    counts = by_region(plan)
    total = max(sum(counts), 1)
    return tuple(
        MemoryReport(
            region.name,
            region.pool_bytes,
            region.capacity,
            count,
            round(count / total, 4),
            region.wait,
        )
        for region, count in zip(plan.regions, counts, strict=True)
    )
