# SPDX-License-Identifier: Apache-2.0
"""Bounds of the distance of a node's bytes from the runtime's: by how many steps, and how many of
them.

Where only half steps go another way, few bytes differ; a wrong function shows in their number
though each byte is within a step. The steps follow from `exact` of an op and from how the runtime
computes the node, the share from `differing_share` of the op. doc/models.md lists both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vmcu_tools.graph import Op
from vmcu_tools.ops.rounding import rounding_steps

# Of a few bytes, any share may be one of them, and so of bytes that all have one of a few values.
FEW = 2
FEW_VALUES = 8
# Of bytes that come of a value that the runtime keeps in float and the graph rounds.
HIDDEN_SHARE = 0.75


@dataclass(frozen=True)
class Promise:
    """A byte may differ by `steps`, and `share` of all bytes for random inputs may differ."""

    steps: int
    share: float

    def most(self, total: int) -> int:
        """Bytes of `total` that may differ."""
        return min(int(self.share * total) + FEW, total) if self.steps else 0


EXACT = Promise(0, 0.0)


def promise_of(op: Op, hidden: Iterable[Promise]) -> Promise:
    """Returns the promise of an op that the runtime computes in float, or moves; hidden: of the
    nodes of its inputs that the runtime does not show."""
    steps = max((one.steps for one in hidden), default=0)
    if op.exact:
        return Promise(steps, HIDDEN_SHARE) if steps else EXACT
    if not steps:
        return Promise(1, op.differing_share)
    return Promise(rounding_steps(op), HIDDEN_SHARE)
