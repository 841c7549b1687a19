# SPDX-License-Identifier: Apache-2.0
"""Instructions (instructions.py) and the instruction sets that implement them, a file each."""

from .dsp import DSP
from .portable import PORTABLE
from .v7m import V7M

# The first whose guard holds is chosen; the last one always holds.
TARGETS = (DSP, V7M, PORTABLE)
