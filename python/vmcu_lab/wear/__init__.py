# SPDX-License-Identifier: Apache-2.0
"""Where writes go in a memory that wears out: stacks that move, a pool whose origin rotates."""
