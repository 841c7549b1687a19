# SPDX-License-Identifier: Apache-2.0
"""All instructions by name, in the order of their definition, and the decorators of these."""

import functools

from ...language.instruction import Instruction, instruction

INSTRUCTIONS: dict[str, Instruction] = {}
# Instructions that call functions made of others, see called.h.
COMPOUND: dict[str, Instruction] = {}

define = functools.partial(instruction, INSTRUCTIONS)
compound = functools.partial(instruction, COMPOUND)
