# SPDX-License-Identifier: Apache-2.0
"""The techniques and limits of a search for an order, which can be switched off one by one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OrderParams:
    """Work is counted in steps that do not depend on the machine."""

    order_work: int = 16_000_000
    """Moves that an order search may weigh in all; about a million take a second."""
    order_small: int = 80
    order_small_work: int = 100_000_000
    """The same for graphs of up to so many nodes, where the search ends in a proof."""
    order_most: int = 20_000
    """Beyond so many nodes a search of the whole graph costs more than it finds."""
    beam_width: int = 300
    """Sets of one size that a beam search keeps; 0: no beam search."""
    backward: bool = True
    """Also search from the end of the order."""
    thorough_most: int = 2000
    beam_work: int = 1_000_000_000
    """Up to so many nodes beams are never narrower, within so many moves."""
    windows: bool = True
    """Improve stretches around the worst steps."""
    free_moves: bool = True
    """Run a node at once if it raises neither peak nor live bytes."""
    dominance: bool = True
    """Try one node only if such nodes follow it and return to no more live bytes."""
    proof_work: int = 10_000_000
    """Moves of an attempt at a proof; the first one has 1/200 of them."""
    proof_width: int = 200_000
    """Sets of one size that an attempt at a proof may keep."""
    proof_share: float = 0.25
    """The second attempt is made only if the first one visited this share of the nodes."""


DEFAULT_ORDER = OrderParams()
