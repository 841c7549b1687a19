# SPDX-License-Identifier: Apache-2.0
"""The order of the instructions of assembly code for a core that issues two in a cycle.

Input: the lines of a function. Output: the same lines, instructions between two labels, branches,
directives or notes in another order, if that takes fewer cycles by cores/dual_issue.py. List
scheduling with a beam: orders grow by an instruction that depends on none that is left; those with
the fewest cycles, by a lower bound, are kept. O(n**2 * BEAM) of n instructions. Registers stay as
they are, so loads of the next turn of a loop wait for the last use in this one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vmcu_bench.cores.dual_issue import Pipeline, Pipes, Use, use_of
from vmcu_bench.cores.instructions import Instruction, kind_of

from .assembly import Function

# Instructions that others stay in front of or behind: branches, and changes of SP.
FIXED = re.compile(r"(b|bl|bx|blx|b[a-z][a-z]|cbn?z|tb[bh]|adr|push|pop|svc)(\.[nw])?$")
FIELDS = ("bic", "bfi", "bfc")
IF_THEN = re.compile(r"it((?:t|e)*)$")
PIPES = Pipes()
# Orders that are kept; twice as many find nothing better. Turns by which they are compared.
BEAM, TURNS = 16, 4


def for_dual_issue(functions: Sequence[Function]) -> list[Function]:
    """The same functions in the order for a core that issues two instructions in a cycle."""
    return [replace(function, code=ordered(tuple(function.code))) for function in functions]


@functools.cache
def ordered(lines: tuple[str, ...]) -> list[str]:
    """The lines of a function, see above."""
    scheduled: list[str] = []
    free: list[str] = []
    conditional = 0
    for line in lines:
        match = IF_THEN.match(line.split(" ")[0])
        if is_fixed(line) or match or conditional:
            scheduled += [*faster(free), line]
            free = []
            conditional = 1 + len(match[1]) if match else max(conditional - 1, 0)
        else:
            free.append(line)
    return [*scheduled, *faster(free)]


def is_fixed(line: str) -> bool:
    """Whether nothing may pass a line."""
    if line.startswith((".", "/*")) or line.endswith(":"):
        return True
    mnemonic, _, operands = line.partition(" ")
    jumps = FIXED.match(mnemonic) and mnemonic.split(".")[0] not in FIELDS
    destination = operands.split(",")[0]
    return bool(jumps) or destination in ("pc", "sp")


def faster(lines: Sequence[str]) -> list[str]:
    """Instructions without a branch in the order that takes the fewest cycles, as the body of a
    loop; they stay as they are if none takes fewer."""
    uses = [use_of(Instruction.parse(line)) for line in lines]
    orders = [tuple(range(len(uses))), *schedules(uses, dependences(lines, uses))]
    return [lines[number] for number in min(orders, key=lambda order: cycles_of(uses, order))]


def cycles_of(uses: Sequence[Use], order: Sequence[int]) -> int:
    """Counts the cycles of some turns of a loop with the instructions in an order."""
    pipeline = Pipeline(PIPES)
    return sum(pipeline.issue(uses[number]) for _ in range(TURNS) for number in order)


def dependences(lines: Sequence[str], uses: Sequence[Use]) -> list[list[int]]:
    """Lists by instruction those behind it that must stay there: they read its results, write its
    operands or results, or one of both stores where the other may load or store."""
    reads = [use.reads | use.early | use.late for use in uses]
    writes = [{*use.writes, use.updated} - {""} for use in uses]
    stores = [bool(kind_of(Instruction.parse(line)).stores) for line in lines]
    memory = ["memory" in use.units for use in uses]
    behind_each: list[list[int]] = []
    for i in range(len(uses)):
        behind = range(i + 1, len(uses))
        behind_each.append(
            [
                j
                for j in behind
                if writes[i] & (reads[j] | writes[j])
                or reads[i] & writes[j]
                or (memory[i] and memory[j] and (stores[i] or stores[j]))
            ]
        )
    return behind_each


@dataclass(frozen=True)
class Partial:
    """An order of some instructions. done: their numbers as bits."""

    pipeline: Pipeline
    order: tuple[int, ...] = ()
    done: int = 0

    def then(self, number: int, use: Use) -> Partial:
        """Returns the order with one more instruction."""
        pipeline = self.pipeline.copy()
        pipeline.issue(use)
        return Partial(pipeline, (*self.order, number), self.done | 1 << number)

    @property
    def state(self) -> object:
        """Equal where the rest takes equally long."""
        pipeline = self.pipeline
        late = frozenset(item for item in pipeline.ready.items() if item[1] > pipeline.now)
        return self.done, pipeline.now, late, frozenset(pipeline.taken.items())


def schedules(uses: Sequence[Use], behind: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The best orders that are found, of the numbers of the instructions."""
    ahead = [sum(1 << i for i, after in enumerate(behind) if j in after) for j in range(len(uses))]
    longest = [0] * len(uses)
    for number in reversed(range(len(uses))):
        after = max((longest[j] for j in behind[number]), default=0)
        longest[number] = uses[number].latency + after

    def bound(partial: Partial) -> tuple[int, int, tuple[int, ...]]:
        """Cycles at least, by the longest path and the units that are left to be used."""
        left = [j for j in range(len(uses)) if not partial.done >> j & 1]
        units = [sum("mac" in uses[j].units for j in left), -(-len(left) // PIPES.issue)]
        rest = max(*units, *(longest[j] for j in left), 0)
        return partial.pipeline.now + rest, partial.pipeline.now, partial.order

    kept = [Partial(Pipeline(PIPES))]
    for _ in uses:
        partials: dict[object, Partial] = {}
        for partial in kept:
            for number, use in enumerate(uses):
                if not partial.done >> number & 1 and not ahead[number] & ~partial.done:
                    longer = partial.then(number, use)
                    partials.setdefault(longer.state, longer)
        kept = sorted(partials.values(), key=bound)[:BEAM]
    return [partial.order for partial in kept]
