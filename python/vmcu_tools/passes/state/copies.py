# SPDX-License-Identifier: Apache-2.0
"""States that each call copies, and the cost of that."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ...ops import bind
from ...ops.recall import Recall


def describe_copies(model: Graph, graph: Graph) -> Iterator[str]:
    """Yields a note for each reason why states are no ring buffers. model: the graph of one call;
    graph: that of many."""
    state = model.state
    for reason in dict.fromkeys(reason for _, reason in state.copied):
        pairs = zip(state.copied, state.recurrent, strict=False)
        of = {name: one for (name, why), one in pairs if why == reason}
        seen, layers = {one.before for one in of.values()}, []
        for node in graph.nodes:
            ends = node.outputs if isinstance(node.op, Recall) else node.inputs
            copies = node.op.exact and not node.op.relabels
            if copies and seen.intersection(ends):
                layers.append(bind(graph, node))
                seen.update(node.outputs)
        size = sum(graph.tensors[one.before].bytes for one in of.values())
        moved = sum(layer.out.bytes for layer in layers)
        cycles = sum(layer.cycles(layer.height) for layer in layers)
        names = "', '".join(of)
        yield (
            f"state: each call copies '{names}' ({size:,} bytes; {moved:,} bytes are moved in "
            f"about {cycles:,.0f} cycles): {reason}"
        )
