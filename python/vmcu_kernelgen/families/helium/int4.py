# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits with MVE: a vector has sixteen taps of two channels, and three shifts widen
both. All else is as for weights of 8 bits."""

from __future__ import annotations

from collections.abc import Mapping

from vmcu_tools.kernels.language.instruction import Instruction

from . import blocks, dense, tile, windows
from .blocks import Weights

WEIGHTS = Weights(nibbles=True)
RUN, PIXEL = f"{blocks.RUN}_int4", f"{dense.RUN}_int4"
FUNCTIONS, DENSE = [blocks.run(RUN, WEIGHTS)], dense.runs_of(PIXEL, WEIGHTS)
ORIGIN = "blocks_helium_int4.S"
FOUR = """for (int32_t n = 0; n < 2; n++, w += 16) {
	const int8x16_t both = vldrbq_s8((const int8_t *)w);
	const int8x16_t lower = vshrq_n_s8(vshlq_n_s8(both, 4), 4);

	acc[n] = vmladavaq_s8(acc[n], taps, vshrq_n_s8(both, 4));
	acc[n + 2] = vmladavaq_s8(acc[n + 2], taps, lower);
}"""


def renamed(own: Mapping[Instruction, str]) -> dict[Instruction, str]:
    """The C of instructions with the functions of this file."""
    return {
        made: text.replace(blocks.RUN, RUN).replace(dense.RUN, PIXEL) for made, text in own.items()
    }


HELPERS = {
    **tile.HELPERS,
    **blocks.run_helpers(FUNCTIONS, ORIGIN),
    **dense.whole_dense(DENSE, ORIGIN, FOUR),
}
OWN = renamed({**blocks.OWN, **dense.OWN, **windows.OWN})
