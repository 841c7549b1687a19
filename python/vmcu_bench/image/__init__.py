# SPDX-License-Identifier: Apache-2.0
"""What an ELF holds: sections and symbols, calls and stacks, what of a model the linker kept."""
