# SPDX-License-Identifier: Apache-2.0
"""Cycles of a core that issues two instructions at once, and the order of code for it."""

from __future__ import annotations

import random
import re

import pytest
from vmcu_bench.cores.instructions import Instruction
from vmcu_bench.cycles.timing import TIMINGS
from vmcu_kernelgen.families.dsp import DSP, INT4
from vmcu_kernelgen.order import for_dual_issue, ordered

M7 = TIMINGS["cortex-m7"]
NAMES = [f"r{number}" for number in range(13)]


def cycles(lines: list[str]) -> float:
    return M7.block([Instruction.parse(line) for line in lines]).total


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # Two units for arithmetic, one for products, one for memory, one for SXTB16.
        ("add r0, r1, r2; add r3, r4, r5; add r6, r7, r8; add r9, r1, r2", 2),
        ("smlad r0, r1, r2, r0; smlad r3, r4, r5, r3", 2),
        ("ldr r0, [r1]; ldr r2, [r3]", 2),
        ("ldr r0, [r1]; smlad r3, r4, r5, r3", 1),
        ("strb r0, [r1]; smlad r3, r4, r5, r3", 1),
        # What has a unit of its own comes first in a pair.
        ("sxtb16 r0, r1; smlad r3, r4, r5, r3", 1),
        ("smlad r3, r4, r5, r3; sxtb16 r0, r1", 2),
        # Operands: the same cycle is too early.
        ("add r0, r1, r2; add r3, r0, r2", 2),
        ("adds r0, #1; adds r0, #1", 2),
        ("ldr r0, [r1]; smlad r3, r0, r5, r3", 2),
        ("ldrsb r0, [r1]; smlad r3, r0, r5, r3", 3),
        ("ldrsb r0, [r1]; mul r0, r2", 3),
        ("ldrsb r0, [r1]; bfi r0, r2, #1, #2", 3),
        ("ldrsb r0, [r1]; smlal r0, r2, r3, r4", 2),
        # Addresses and shifted operands are read a cycle early, accumulators a cycle late.
        ("add r0, r1, r2; ldr r3, [r0]", 3),
        ("add r0, r1, r2; add r3, r4, r0, lsl #2", 3),
        ("smlad r0, r1, r2, r0; smlad r0, r4, r5, r0", 2),
        ("smlad r0, r1, r2, r0; add r3, r0, r4", 3),
        ("smull r0, r1, r2, r3; smlal r0, r1, r4, r5", 2),
        ("ssat r0, #8, r1; add r2, r0, r3", 3),
        # A register that an access moves is there for the next address.
        ("ldr r0, [r1], #4; ldr r2, [r1]", 2),
        # Alone: a register a cycle; division.
        ("ldm r0!, {r1, r2, r3}; add r4, r5, r6", 4),
        ("ldrd r1, r2, [r0]; add r4, r5, r6", 3),
        ("push {r4-r7, lr}", 5),
        ("udiv r0, r1, r2; add r4, r5, r6", 8),
        ("cmp r0, r1; bne 4", 2),
        ("vmul.f32 s0, s1, s2; vadd.f32 s3, s0, s4", 4),
    ],
)
def test_pairs_issue_as_llvm_schedules_them(code: str, expected: int) -> None:
    assert cycles(code.split("; ")) == expected


def test_cycles_are_those_of_who_begins_or_waits() -> None:
    code = ["ldrsb r0, [r1]", "smlad r3, r0, r5, r3", "strb r3, [r6]"]
    spent = M7.block([Instruction.parse(line) for line in code])
    assert (spent.loads, spent.arithmetic, spent.stores) == (1, 2, 1)
    assert M7.taken(3).branches == 3


# What each instruction does, said again: its form, the places of what it writes and reads.
FORMS = {
    "smlad {0}, {1}, {2}, {3}": ((0,), (1, 2, 3)),
    "sxtb16 {0}, {1}": ((0,), (1,)),
    "add.w {0}, {1}, {2}, asr #31": ((0,), (1, 2)),
    "adds {0}, {1}": ((0, "flags"), (0, 1)),
    "adds {0}, #3": ((0, "flags"), (0,)),
    "mul {0}, {1}": ((0,), (0, 1)),
    "sbc {0}, {1}, #0": ((0,), (1, "flags")),
    "cmp {0}, {1}": (("flags",), (0, 1)),
    "mov {0}, {1}": ((0,), (1,)),
    "movt {0}, #3": ((0,), (0,)),
    "bfi {0}, {1}, #3, #4": ((0,), (0, 1)),
    "smull {0}, {1}, {2}, {3}": ((0, 1), (2, 3)),
    "smlal {0}, {1}, {2}, {3}": ((0, 1), (0, 1, 2, 3)),
    "ssat {0}, #8, {1}, asr #1": ((0,), (1,)),
    "pkhbt {0}, {1}, {2}, lsl #16": ((0,), (1, 2)),
    "ldr.w {0}, [{1}], #4": ((0, 1), (1, "memory")),
    "ldr.w {0}, [{1}, #-4]!": ((0, 1), (1, "memory")),
    "ldrsb.w {0}, [{1}, {2}]": ((0,), (1, 2, "memory")),
    "ldrd {0}, {1}, [{2}, #8]": ((0, 1), (2, "memory")),
    "ldm {0}!, {{{1}, {2}}}": ((0, 1, 2), (0, "memory")),
    "str.w {0}, [{1}], #4": ((1, "memory"), (0, 1, "memory")),
    "strb {0}, [{1}, {2}]": (("memory",), (0, 1, 2, "memory")),
    "stm {0}!, {{{1}, {2}}}": ((0, "memory"), (0, 1, 2, "memory")),
}
PATTERNS = {
    form: re.compile(re.escape(form.format(*4 * ["@"])).replace("@", r"(r\d+)")) for form in FORMS
}


def state_after(lines: list[str]) -> dict[object, int]:
    """Registers, flags and memory, each a hash of what it was made of."""
    state: dict[object, int] = {}
    for line in lines:
        form, names = next(
            (form, match.groups())
            for form, pattern in PATTERNS.items()
            if (match := pattern.fullmatch(line))
        )

        def place(one: object, names: tuple[str, ...] = names) -> object:
            return names[one] if isinstance(one, int) else one

        writes, reads = FORMS[form]
        made = hash((form, *(state.get(place(one), 0) for one in reads)))
        state |= {place(one): hash((made, n)) for n, one in enumerate(writes)}
    return state


@pytest.mark.parametrize("seed", range(60))
def test_another_order_does_the_same(seed: int) -> None:
    rng = random.Random(seed)
    lines = [
        rng.choice([*FORMS]).format(*rng.sample(NAMES, 4)) for _ in range(rng.randrange(2, 40))
    ]
    found = ordered(tuple(lines))
    assert sorted(found) == sorted(lines)
    assert state_after(found) == state_after(lines)
    assert cycles(4 * found) <= cycles(4 * lines)


def test_what_cannot_move_stays() -> None:
    """Labels, branches, directives, notes, and what an IT makes conditional."""
    free = ["ldr r1, [r2]", "add r3, r4, r5", "smlad r6, r7, r8, r6"]
    fixed = ["<turn>:", "blo <turn>", ".rept 2", "/* A note. */", "ldr pc, [sp, #12]", "push {r4}"]
    fixed += ["add sp, #8", "adr.w r6, <turn> + 57", "bx lr"]
    for line in fixed:
        found = ordered((*free, line, *free))
        assert found[3] == line and sorted(found[:3]) == sorted(free) == sorted(found[4:])


def test_the_stack_moves_where_directives_say_so() -> None:
    waiting = ["ldrsb r1, [r2]", "add r3, r1, r5", "add sp, #8", ".cfi_adjust_cfa_offset -8"]
    assert ordered(tuple(waiting)) == waiting


def test_what_is_conditional_stays_behind_its_condition() -> None:
    waiting = ["ldrsb r1, [r2]", "add r3, r1, r5"]
    conditional = ["cmp r0, #1", "ite le", "movle r6, #1", "movgt r6, #2"]
    found = ordered((*conditional, *waiting, "eor r7, r8, r4"))
    assert found[: len(conditional)] == conditional
    assert found[len(conditional) :] == [waiting[0], "eor r7, r8, r4", waiting[1]]


def test_each_loop_is_faster_or_as_it_was() -> None:
    """The assembly of the DSP extension: fewer cycles, the same instructions in each part."""
    for functions in (*DSP.assembly.values(), *INT4.assembly.values()):
        for before, after in zip(functions, for_dual_issue(functions), strict=True):
            assert sorted(before.code) == sorted(after.code) and before.name == after.name
