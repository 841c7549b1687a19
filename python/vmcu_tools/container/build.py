# SPDX-License-Identifier: Apache-2.0
"""A plan as a container, proven as it is read back."""

from __future__ import annotations

from ..emit import emit
from ..emit.proof import prove_objects
from ..machine import tables
from ..plan.plan import Plan
from .pack import pack
from .read import unpack


def build(plan: Plan, name: str) -> bytes:
    """The container of a plan, unsigned: the tables and constants of emit(), which is proven, once
    more proven as they are read back from it. Raises what emit() does."""
    objects = tables.read(emit(plan, name).files, name)
    needed = {kind for step in plan.steps for kind in step.node.op.requantisers}
    image = pack(objects, name, sorted(needed))
    prove_objects(unpack(image)[0], name, plan)
    return image
