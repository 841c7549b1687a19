# SPDX-License-Identifier: Apache-2.0
"""Counts of emulated instructions, and the cycles that the rules of a core give them, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_bench import MISSING
from vmcu_bench.cores.instructions import Instruction, Spent
from vmcu_bench.cycles.model import board, cycles_of
from vmcu_bench.cycles.timing import TIMINGS, timing_of
from vmcu_bench.runners import RUNNERS, counting
from vmcu_bench.runners.counting import CountingRunner, Markers, blocks_of
from vmcu_bench.runners.qemu import QemuRunner
from vmcu_tools.boards.counts import Counts

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

# Two instructions before the loop, five in it, four behind it, of which one does nothing.
COUNTED = """
    .syntax unified
    .thumb
    .global counted
    .type counted, %function
counted:
    push {r4, r5, lr}
    ldr r2, =0x12345678
1:  ldm r1, {r3, r4, r5}
    strh r3, [r1]
    ldrd r4, r5, [r1]
    subs r0, #1
    bne 1b
    cmp r0, #1
    it eq
    ldreq r3, [r1]
    pop {r4, r5, pc}
    .size counted, . - counted
    .pool
"""
# Five instructions in the loop, two behind it.
COUNTED_RISCV = """
    .global counted
    .type counted, %function
counted:
1:  lw a2, 0(a1)
    lhu a3, 4(a1)
    sb a3, 8(a1)
    addi a0, a0, -1
    bnez a0, 1b
    sw a0, 0(a1)
    ret
    .size counted, . - counted
"""
# The first one as far as ARMv6-M has it.
COUNTED_V6M = """
    .syntax unified
    .thumb
    .global counted
    .type counted, %function
counted:
    push {r4, r5, lr}
    ldr r2, =0x12345678
1:  ldm r1!, {r3, r4, r5}
    subs r1, #12
    strh r3, [r1]
    ldr r4, [r1]
    muls r4, r4, r5
    subs r0, #1
    bne 1b
    bl 2f
    pop {r4, r5, pc}
2:  bx lr
    .size counted, . - counted
    .pool
"""
MAIN = """
#include <stdint.h>
void counted(uint32_t rounds, uint32_t *words);
int main(void)
{
	uint32_t words[3] = {0};

	counted(ROUNDS, words);
	words[0] += 1U;
	return 0;
}
"""


def count_assembly(name: str, folder: Path, rounds: int) -> tuple[Counts, Spent | None]:
    code = {"qemu:m0": COUNTED_V6M, "qemu:rv32": COUNTED_RISCV}.get(name, COUNTED)
    (folder / "counted.S").write_text(code)
    (folder / "main.c").write_text(MAIN)
    image = folder / "image.elf"
    target = board(name)
    sources = [folder / "main.c", folder / "counted.S", *target.sources()]
    arguments = [f"-DROUNDS={rounds}", *map(str, sources), *target.link_flags()]
    target.gcc([*arguments, "-o", str(image)], folder)
    entry = counting.Elf(image).find("counted")
    assert entry is not None
    counter = CountingRunner.of(target, Markers((entry.address,)))
    counts = counter.count(folder, lambda t: t._start(image))[1][0]
    cycles = cycles_of(target, image, blocks_of(folder), 1)
    return counts, None if cycles is None else cycles[0]


@pytest.mark.parametrize("rounds", [1, 1000])
@pytest.mark.parametrize(
    "name", [f"qemu:{core}" for core in ("m3", "m4", "m7", "m33", "m55", "m0", "rv32")]
)
def test_counts_and_cycles_are_those_made_by_hand(name: str, rounds: int, tmp_path: Path) -> None:
    counts, spent = count_assembly(name, tmp_path, rounds)
    if name == "qemu:rv32":
        instructions, stores = 5 * rounds + 2, rounds + 1
        assert (counts, spent) == (Counts(1, instructions, 2 * rounds, 0, stores), None)
    elif name == "qemu:m0":
        # Loads and stores take two; a branch taken adds one, BL and a POP that returns one more.
        assert spent == Spent(
            arithmetic=3 * rounds,
            loads=2 + (4 + 2) * rounds + 5,
            stores=4 + 2 * rounds,
            branches=(1 + 1) * rounds - 1 + (2 + 1) + (1 + 1) + 1,
        )
    else:
        assert counts == Counts(
            calls=1,
            instructions=2 + 5 * rounds + 4,
            loads_ram=5 * rounds + 3,
            loads_flash=1,
            stores=3 + rounds,
        )
    if name == "qemu:m4":
        # PUSH of three; LDR, LDM of three, LDRD, LDR, POP of three, one more each than registers; a
        # branch taken adds one and a half, at the end of each round but the last, and to return.
        assert spent == Spent(
            arithmetic=1 * rounds + 2,
            loads=2 + (4 + 3) * rounds + 2 + 4,
            stores=4 + 1 * rounds,
            branches=1 * rounds + 1.5 * rounds,
        )


def test_rules_are_those_of_the_core() -> None:
    boards = [b for b in RUNNERS.values() if isinstance(b, QemuRunner) and b.pointer_bytes == 4]
    assert boards
    for one in boards:
        timing = timing_of(board(one.name))
        assert (timing is None) == (one.name in ("qemu:m55", "qemu:rv32")), one.name
        if timing is not None:
            core = timing.core.replace("Cortex-M", "cortex-m").replace("+", "plus")
            assert board(one.name).core == core


@pytest.mark.parametrize(
    ("core", "code", "cycles"),
    [
        ("m4", "ldr r0, [r1]", 2),
        ("m4", "ldr r0, [r1]; ldr r2, [r3]; ldr.w r4, [r1, #8]", 4),
        ("m4", "ldr r0, [r1]; ldr r2, [r0, #4]", 4),
        ("m4", "ldrsb r0, [r1, r2]; ldrhne r3, [r4]", 3),
        ("m4", "ldr r0, [r1]; str r0, [r2]; ldr r0, [r1]", 5),
        ("m4", "strd r0, r1, [r2]; stmdb sp!, {r4, r5, r6, r7}", 8),
        ("m4", "ldmia r0!, {r1-r4, r6}; vldr s0, [r1]; vpush {d8-d9}", 11),
        ("m4", "vldr d0, [r1]; vdiv.f32 s0, s1, s2; vadd.f32 s0, s1, s2", 18),
        (
            "m4",
            "smlad r0, r1, r2, r3; mla r0, r1, r2, r3; smull r0, r1, r2, r3; udivcs r0, r1, r2",
            10,
        ),
        (
            "m4",
            "vmla.f32 s0, s1, s2; vmls.f32 s0, s1, s2; vfma.f32 s0, s1, s2; vfms.f32 s0, s1, s2",
            12,
        ),
        ("m4", "vsqrt.f32 s0, s1; vmul.f32 s0, s1, s2; sdiv r0, r1, r2", 22),
        ("m4", "bls 4; blx r3; cbz r0, 4; bic r0, r1, r2; teq r0, r1; subls r0, r1, r2", 6),
        # Table 3-1 of the Cortex-M3's manual: long multiplications take longer.
        ("m3", "mla r0, r1, r2, r3; mls r0, r1, r2, r3; mul r0, r1, r2", 5),
        ("m3", "smull r0, r1, r2, r3; umull r0, r1, r2, r3", 8),
        ("m3", "smlal r0, r1, r2, r3; umlal r0, r1, r2, r3", 11),
        ("m3", "udiv r0, r1, r2; sdiv r0, r1, r2", 14),
    ],
)
def test_a_run_takes_what_the_manual_says(core: str, code: str, cycles: float) -> None:
    run = [Instruction.parse(text) for text in code.split("; ")]
    assert TIMINGS[f"cortex-{core}"].block(run).total == cycles
