# SPDX-License-Identifier: Apache-2.0
"""All instructions by name, in the order of their definition."""

from ...language.instruction import Instruction

INSTRUCTIONS: dict[str, Instruction] = {}
# Instructions that call functions made of others, see called.h.
COMPOUND: dict[str, Instruction] = {}
