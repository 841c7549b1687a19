# SPDX-License-Identifier: Apache-2.0
"""The tile of depthwise convolutions with the DSP extension. It stays bytes until it is read:
widening it there costs as much as widening it here, and would take twice the room."""

from __future__ import annotations

from ..thumb import asm

# A piece is struct vmcu_piece; all registers but these are its members or bytes.
PIECE, CHANNEL, PLANE = "r0", "r1", "r7"
U, A, B, PITCH_A, PITCH_B, COUNT = "r2", "r3", "r4", "r5", "r6", "r8"
# Words of the pixels, and one that is made of them.
A0, A1, B0, B1, LOW = "r9", "r10", "r11", "r12", "lr"
ZEROS, END = "[sp]", "[sp, #4]"


def woven(a: str, b: str, low: str) -> list[str]:
    """A word of either plane."""
    return [
        f"pkhbt {low}, {a}, {b}, lsl #16",
        f"pkhtb {a}, {b}, {a}, asr #16",
        f"str {a}, [{U}, {PLANE}]",
        f"str {low}, [{U}], #4",
    ]


def stage() -> list[str]:
    return [
        "push {r2, r3, r7}",
        f"mov {PLANE}, r4",
        "1:",
        f"ldm {PIECE}!, {{{U}-{PITCH_B}, {COUNT}}}",
        f"cbz {PITCH_A}, 2f",
        f"add {A}, {A}, {CHANNEL}",
        "2:",
        f"cbz {PITCH_B}, 3f",
        f"add {B}, {B}, {CHANNEL}",
        "3:",
        f"tst {COUNT}, #1",
        "beq 4f",
        f"ldr {B0}, [{B}]",
        f"ldr {A0}, {ZEROS}",
        f"add {B}, {B}, {PITCH_B}",
        *woven(A0, B0, LOW),
        # Two words at a time; what is left of them stands above the last bits.
        "4:",
        f"subs {COUNT}, {COUNT}, #8",
        "bmi 6f",
        "5:",
        f"ldr {A0}, [{A}]",
        f"ldr {A1}, [{A}, {PITCH_A}]",
        f"ldr {B0}, [{B}]",
        f"ldr {B1}, [{B}, {PITCH_B}]",
        f"add {A}, {A}, {PITCH_A}, lsl #1",
        f"add {B}, {B}, {PITCH_B}, lsl #1",
        *woven(A0, B0, LOW),
        *woven(A1, B1, LOW),
        f"subs {COUNT}, {COUNT}, #8",
        "bpl 5b",
        "6:",
        f"tst {COUNT}, #4",
        "beq 7f",
        f"ldr {A0}, [{A}]",
        f"ldr {B0}, [{B}]",
        f"add {A}, {A}, {PITCH_A}",
        *woven(A0, B0, LOW),
        "7:",
        f"tst {COUNT}, #2",
        "beq 8f",
        f"ldr {A0}, [{A}]",
        f"ldr {B0}, {ZEROS}",
        *woven(A0, B0, LOW),
        "8:",
        f"ldr {A0}, {END}",
        f"cmp {PIECE}, {A0}",
        "bne 1b",
        "pop {r2, r3, r7}",
    ]


HELPERS = {
    "stage_pieces": f"""
/* Four channels of all pieces of a strip, of which there are some. */
VMCU_APART void vmcu_stage_pieces(const struct vmcu_piece *piece, const struct vmcu_piece *end,
				  int32_t channel, int32_t plane, uint32_t zeros)
{{
	register const struct vmcu_piece *p __asm__("r0") = piece;
	register int32_t first __asm__("r1") = channel;
	register uint32_t padding __asm__("r2") = zeros;
	register const struct vmcu_piece *last __asm__("r3") = end;
	register int32_t words __asm__("r4") = 4 * plane;

	__asm__ volatile(
		{asm(stage())}
		: "+r"(p), "+r"(first), "+r"(padding), "+r"(last), "+r"(words)
		:
		: "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}}
""",
}
