# SPDX-License-Identifier: Apache-2.0
"""Counts the accesses to the pieces of a layout, before they have offsets."""

from __future__ import annotations

from collections import Counter

from ...plan.accesses import noted, traffic
from ..places.layout import Group, Layout
from ..places.pieces import scratch_of, stage_memory


def accesses(layout: Layout) -> Counter[str]:
    """Bytes that are loaded and stored in an inference, by piece, see places/pieces.py; scratch of
    layers on their own is a piece of its own here. Callers write inputs and read outputs once."""
    graph = layout.graph
    counts: Counter[str] = Counter()
    for port in (*graph.inputs, *graph.outputs):
        counts[port.tensor] += graph.tensors[port.tensor].bytes
    for number, group in enumerate(layout.groups):
        owners = _owners(group)
        for layer in group.layers:
            one = traffic(layer)
            counts[owners.get(layer.out.name, layer.out.name)] += one.writes
            for tensor, bytes_ in zip(layer.ins, one.reads, strict=True):
                counts[owners.get(tensor.name, tensor.name)] += bytes_
            where = scratch_of(layer.out.name) if group.trace is None else stage_memory(number)
            counts[where] += one.scratch
        if group.trace is not None:
            counts[stage_memory(number)] += noted(group.calls)
    return counts


def _owners(group: Group) -> dict[str, str]:
    """Maps each tensor of a stage to the tensor whose ring it lives in."""
    pairs = zip(group.tensors, group.homes, strict=True)
    return {tensor.name: group.tensors[home.owner].name for tensor, home in pairs}
