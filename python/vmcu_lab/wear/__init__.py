# SPDX-License-Identifier: Apache-2.0
"""Writes by place in a memory that wears out: stacks that move, a pool whose origin rotates."""
