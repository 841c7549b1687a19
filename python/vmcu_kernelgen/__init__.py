# SPDX-License-Identifier: Apache-2.0
"""Writes lib/vmcu/kernels/gen: programs and instructions as C, and the assembly of families of
cores. Compiling a model needs none of it."""
