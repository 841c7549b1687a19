# SPDX-License-Identifier: Apache-2.0
"""The time of the reads of external weights, and how much of that computation hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan.chunks import Chunk, ExternalWeights
from ..plan.plan import Plan
from ..planner.stages.costs import cycles_of
from .cycles import printed
from .page.names import short_names

# Stages that the sentence on waits names.
MOST_NAMED = 3
# Cycles to check a byte's digest, modelled on a Cortex-M4.
DIGEST_CYCLES = 3.0


@dataclass(frozen=True)
class ReadReport:
    """The read of a stage's constants. `layer`: the first of the stage. Times in milliseconds:
    `read_ms` of the read, `compute_ms` of the stage, and `wait_ms` that the stage waits for the
    read; the last two are None without a board. `ahead`: the stages before, in which the read can
    already run."""

    stage: int
    layer: str
    bytes: int
    ahead: int
    read_ms: float
    compute_ms: float | None
    wait_ms: float | None


@dataclass(frozen=True)
class WeightsReport:
    """The weights file, and the buffer in RAM, which is part of `pool_bytes`, in bytes.
    `hidden`: the part of all read time in which stages compute, `digest_ms`: the time that checks
    of digests take, by estimate; None without a board."""

    file_bytes: int
    ram_bytes: int
    read_ms: float
    hidden: float | None
    digest_ms: float | None
    reads: tuple[ReadReport, ...]


def weights_report(plan: Plan, cycle_s: float | None = None) -> WeightsReport | None:
    """The reads of a plan; None for one whose constants are in flash. cycle_s: seconds of a cycle
    that is counted by estimate."""
    weights = plan.weights
    if weights is None:
        return None
    seconds = None if cycle_s is None else compute_s(plan, cycle_s)
    waits = None if seconds is None else waits_s(weights, seconds)
    reads = tuple(_read(plan, weights, chunk, seconds, waits) for chunk in weights.chunks)
    total = sum(read.read_ms for read in reads)
    hidden = None if waits is None else 1 - 1000 * sum(waits) / total
    return WeightsReport(
        weights.file_bytes,
        weights.buffer_bytes,
        round(total, 6),
        None if hidden is None else round(hidden, 6),
        None if cycle_s is None else round(1000 * DIGEST_CYCLES * cycle_s * weights.file_bytes, 6),
        reads,
    )


def compute_s(plan: Plan, cycle_s: float) -> list[float]:
    """Seconds that each stage computes, by estimate; cycle_s: of a cycle."""
    cycles = iter(cycles_of(plan))
    return [cycle_s * sum(next(cycles) for _ in steps) for steps in plan.stages]


def _read(
    plan: Plan,
    weights: ExternalWeights,
    chunk: Chunk,
    seconds: Sequence[float] | None,
    waits: Sequence[float] | None,
) -> ReadReport:
    return ReadReport(
        chunk.stage,
        plan.stages[chunk.stage][0].node.name,
        chunk.size,
        chunk.stage - chunk.start,
        round(1000 * weights.store.read_s(chunk.size), 6),
        None if seconds is None else round(1000 * seconds[chunk.stage], 6),
        None if waits is None else round(1000 * waits[chunk.stage], 6),
    )


def waits_s(weights: ExternalWeights, compute_s: Sequence[float]) -> list[float]:
    """Seconds that each stage waits for its constants. Reads run one after the other, as
    lib/vmcu/weights.c starts them. compute_s: seconds of each stage."""
    ends: dict[int, float] = {}
    waits = []
    now = free = 0.0
    for stage, seconds in enumerate(compute_s):
        for chunk in weights.chunks:
            if chunk.start == stage:
                free = max(now, free) + weights.store.read_s(chunk.size)
                ends[chunk.stage] = free
        waits.append(max(0.0, ends.get(stage, 0.0) - now))
        now += waits[-1] + seconds
    return waits


def sentences(report: WeightsReport) -> list[str]:
    """Returns the main facts about reads: how long they take, how much is hidden, and which
    stages wait."""
    reads = f"Reading the weights takes {printed(report.read_ms)} ms an inference"
    if report.hidden is None:
        return [f"{reads}. Add --board to estimate how much of it is hidden."]
    hidden, digests = f"{100 * report.hidden:.1f} %", printed(report.digest_ms or 0.0)
    facts = [f"{reads}; computation hides {hidden} of it, by estimate. Digests take {digests} ms."]
    late = sorted((r for r in report.reads if r.wait_ms), key=lambda r: -(r.wait_ms or 0.0))
    names = short_names(read.layer for read in report.reads)
    named = [
        f"stage {r.stage} ('{names[r.layer]}') {printed(r.wait_ms or 0.0)} ms, {_cause(r)}"
        for r in late[:MOST_NAMED]
    ]
    if named:
        more = f"; {len(late) - len(named)} more stages wait" if len(late) > len(named) else ""
        facts.append(f"Stages wait for weights: {'; '.join(named)}{more}.")
    return facts


def _cause(read: ReadReport) -> str:
    if read.stage == 0:
        return "the first of an inference"
    if read.ahead == 0:
        return "since the buffer does not fit its weights beside those of the stage before"
    return f"since its read takes {printed(read.read_ms)} ms"
