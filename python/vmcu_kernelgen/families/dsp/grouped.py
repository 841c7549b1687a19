# SPDX-License-Identifier: Apache-2.0
"""Sums of weights of 4 bits in groups of taps, with the DSP extension: four channels of a pixel.

The sums of a group are in registers, behind a group they join the totals in memory. Both are 16
times too large, as in int4.py.
"""

from __future__ import annotations

from vmcu_tools.kernels.language.packing import NIBBLES
from vmcu_tools.kernels.targets.portable.grouped import (
    FRACTION,
    TAPS,
    sums_coarse,
    sums_fine,
    sums_zeros,
    zeros_with,
)

from ...assembly import SAVED, WORD, Function, leave, note, push, release, repeat, save
from ..thumb import STREAM, Registers, T, prototypes
from .dense import BLOCK
from .int4 import dense_four, loads

SUMS = Registers.of(BLOCK).sums
(*FREE, TOTALS, STOP) = Registers.of(BLOCK).free
# On the stack: bytes of a group, the end of all taps; then the registers that the function saves,
# its argument.
SLOTS = {0: "GROUP", WORD: "END", WORD * (2 + len(SAVED)): "TOTALS"}
GROUP, END, ARGUMENT = (f"[sp, #{at}]" for at in SLOTS)


def added_coarse() -> list[str]:
    """Adds the sums times bytes to words."""
    *totals, word, factor = FREE
    picks = [
        f"uxtb {factor}, {word}",
        *(f"ubfx {factor}, {word}, #{8 * n}, #8" for n in (1, 2)),
        f"lsr {factor}, {word}, #24",
    ]
    code = [f"ldr.w {word}, [{STREAM}], #4", f"ldm {TOTALS}, {{{', '.join(totals)}}}"]
    for pick, total, acc in zip(picks, totals, SUMS, strict=True):
        code += [pick, f"mla {total}, {acc}, {factor}, {total}"]
    return [*code, f"stm {TOTALS}, {{{', '.join(totals)}}}"]


def added_fine() -> list[str]:
    """Adds the sums times halves of words to pairs of words."""
    low, high, factor, *words = FREE
    code = loads(words[:2], STREAM)
    for n, acc in enumerate(SUMS):
        word, place = words[n // 2], f"[{TOTALS}, #{8 * n}]"
        code.append(f"ldrd {low}, {high}, {place}")
        code.append(f"asr {factor}, {word}, #16" if n % 2 else f"sxth {factor}, {word}")
        code += [f"smlal {low}, {high}, {acc}, {factor}", f"strd {low}, {high}, {place}"]
    return code


def function(name: str, added: list[str], what: str) -> Function:
    code = [
        *save(),
        f"lsl {SUMS[0]}, r2, #2",
        f"mla r3, {SUMS[0]}, r3, {T}",
        *push((SUMS[0], "r3")),
        f"ldr {TOTALS}, {ARGUMENT}",
        note("A group starts at zero."),
        "<group>:",
        f"ldr {STOP}, {GROUP}",
        *(f"movs {acc}, #0" for acc in SUMS),
        f"add {STOP}, {T}, {STOP}",
        ".p2align 2",
        note(f"{TAPS} taps of four channels."),
        "<turn>:",
        *repeat(TAPS // 4, dense_four()),
        f"cmp {T}, {STOP}",
        "bne <turn>",
        note("Add the sums times their multipliers."),
        *added,
        f"ldr {FREE[0]}, {END}",
        f"cmp {T}, {FREE[0]}",
        "bne <group>",
        *release(2),
        leave(),
    ]
    summary = (
        f"Adds groups of taps of a pixel times four channels to {what}; returns where the flash "
        "stream goes on."
    )
    return Function(name, summary, code, SLOTS)


COARSE, FINE = "vmcu_add_coarse", "vmcu_add_fine"
FUNCTIONS = [
    function(COARSE, added_coarse(), "four words"),
    function(FINE, added_fine(), "four pairs of words"),
]
PARAMETERS = "const uint8_t *stream, const int8_t *x, int32_t steps, int32_t groups, {} *totals"
DECLARED = "".join(
    prototypes([made], "const uint8_t *", PARAMETERS.format(kind))
    for made, kind in zip(FUNCTIONS, ("int32_t", "uint64_t"), strict=True)
)
HELPERS = {"grouped": f"/* In grouped_dsp_int4.S. */\n{DECLARED}"}
OWN = {
    sums_coarse: f"""
const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;

for (int32_t n = 0; n < 4; n++) {{
	acc[n] = (int32_t)(((const uint32_t *)*w)[n] << 4);
}}
*w = {COARSE}(*w + 4 * sizeof(*acc), x, p->steps, p->groups, acc);
for (int32_t n = 0; n < 4; n++) {{
	acc[n] >>= 4;
}}
""",
    sums_fine: f"""
const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;
uint64_t totals[4];

__builtin_memcpy(totals, *w, sizeof(totals));
for (int32_t n = 0; n < 4; n++) {{
	totals[n] <<= 4;
}}
*w = {FINE}(*w + sizeof(totals), x, p->steps, p->groups, totals);
for (int32_t n = 0; n < 4; n++) {{
	acc[n] = (int32_t)((int64_t)totals[n] >> {FRACTION + 4});
}}
""",
    # A group's sums are 16 times too large; so are those of a part, for the next one.
    sums_zeros: zeros_with(
        NIBBLES,
        f"""*w = {FINE}(*w, x, p->steps, p->groups, parts);""",
    ).replace("total[n] += parts[n];", "total[n] += (uint64_t)((int64_t)parts[n] >> 4);"),
}
