# SPDX-License-Identifier: Apache-2.0
"""The tile of depthwise convolutions with the DSP extension. It stays bytes until it is read:
widening it there costs as much as widening it here, and would take twice the room."""

from __future__ import annotations

from ...assembly import note
from .frame import member

# A piece is struct vmcu_piece; all registers but these are its members or bytes.
PIECE, CHANNEL, PLANE = "r0", "r1", "r7"
U, A, B, PITCH_A, PITCH_B, COUNT = "r2", "r3", "r4", "r5", "r6", "r8"
# Words of the pixels, and one that is made of them.
A0, A1, B0, B1, LOW = "r9", "r10", "r11", "r12", "lr"


def woven(a: str, b: str, low: str) -> list[str]:
    """A word of either plane."""
    return [
        f"pkhbt {low}, {a}, {b}, lsl #16",
        f"pkhtb {a}, {b}, {a}, asr #16",
        f"str {a}, [{U}, {PLANE}]",
        f"str {low}, [{U}], #4",
    ]


def stage(done: str) -> list[str]:
    """Four channels of all pieces of a strip, from CHANNEL on, then goes on at `done`."""
    return [
        note("Stage four channels: make words of the tile from each piece of the strip."),
        f"ldr {PIECE}, {member('pieces')}",
        f"ldr {PLANE}, {member('plane')}",
        f"ldr {A0}, {member('behind')}",
        f"cmp {PIECE}, {A0}",
        f"beq {done}",
        "<piece>:",
        f"ldm {PIECE}!, {{{U}-{PITCH_B}, {COUNT}}}",
        f"cbz {PITCH_A}, <from_a>",
        f"add {A}, {A}, {CHANNEL}",
        "<from_a>:",
        f"cbz {PITCH_B}, <from_b>",
        f"add {B}, {B}, {CHANNEL}",
        "<from_b>:",
        note("A first word whose upper row is padding."),
        f"tst {COUNT}, #1",
        "beq <whole>",
        f"ldr {B0}, [{B}]",
        f"ldr {A0}, {member('zeros')}",
        f"add {B}, {B}, {PITCH_B}",
        *woven(A0, B0, LOW),
        note("Two words at a time; what is left of them is above the last bits of the count."),
        "<whole>:",
        f"subs {COUNT}, {COUNT}, #8",
        "bmi <odd_word>",
        "<two_words>:",
        f"ldr {A0}, [{A}]",
        f"ldr {A1}, [{A}, {PITCH_A}]",
        f"ldr {B0}, [{B}]",
        f"ldr {B1}, [{B}, {PITCH_B}]",
        f"add {A}, {A}, {PITCH_A}, lsl #1",
        f"add {B}, {B}, {PITCH_B}, lsl #1",
        *woven(A0, B0, LOW),
        *woven(A1, B1, LOW),
        f"subs {COUNT}, {COUNT}, #8",
        "bpl <two_words>",
        "<odd_word>:",
        note("One word more, and one whose lower row is padding."),
        f"lsls {COUNT}, {COUNT}, #30",
        "bcc <tail>",
        f"ldr {A0}, [{A}]",
        f"ldr {B0}, [{B}]",
        f"add.w {A}, {A}, {PITCH_A}",
        *woven(A0, B0, LOW),
        "<tail>:",
        "bpl <next_piece>",
        f"ldr {A0}, [{A}]",
        f"ldr {B0}, {member('zeros')}",
        *woven(A0, B0, LOW),
        "<next_piece>:",
        f"ldr {A0}, {member('behind')}",
        f"cmp {PIECE}, {A0}",
        "bne <piece>",
    ]
