# SPDX-License-Identifier: Apache-2.0
"""Reads ELF files: sections and symbols, calls and stacks, the parts of a model that the linker
kept."""
