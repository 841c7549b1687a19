# SPDX-License-Identifier: Apache-2.0
"""Graphs that keep state from one call to the next, and graphs that stream.

compile_model() calls prepare() once. There are four cases:

| Case | Steps |
| --- | --- |
| no state | optimize |
| states are the latest rows of a tensor | connect_states, optimize, merge_branches |
| layers compute states | connect_states, optimize_with_states, join_inputs |
| a recurrent layer whose calls cannot follow each other | keep_recurrent_states, then as above |

The result is the graph of a first call. The planner needs the graph of many calls or streaming
steps; expand_steps() computes it:

| Case | Function |
| --- | --- |
| a window that moves over the input | expand_steps, with transpose_rows for images of one row |
| states are the latest rows of a tensor | concatenate_calls |
| layers compute states | expand_recurrent_calls |
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .. import optimize


def prepare(graph: Graph, pairs: Sequence[str] | None) -> Graph:
    """Optimises a graph as a frontend made it, and prepares its state for the planner.

    pairs: see connect_states(). Raises UserError for states that do not exist or do not fit.
    """
    stateless = not (graph.state.names or graph.is_recurrent or pairs)
    if stateless and len(graph.inputs) < 2:
        # Nearly all graphs: they do not load the modules below.
        return optimize(graph)
    from .concatenate import can_concatenate_calls, merge_branches
    from .connect import connect_states
    from .join_inputs import join_inputs
    from .keep_recurrent import keep_recurrent_states
    from .recurrent import optimize_with_states

    graph = connect_states(graph, pairs)
    if graph.is_recurrent and not can_concatenate_calls(graph):
        graph = keep_recurrent_states(graph)
    if graph.state.recurrent:
        return join_inputs(optimize_with_states(graph))
    if graph.state.names:
        # A channel that is constant in a first call is not in the next.
        return merge_branches(optimize(graph, all_channels=True))
    return optimize(graph)


def rows_of_call(graph: Graph, pairs: Sequence[str] | None) -> int:
    """Returns the input rows of each call of a graph as a frontend made it; 0 if it has no state
    or no other input. pairs: see connect_states()."""
    from .connect import connect_states

    graph = connect_states(graph, pairs)
    if not graph.state.names or not graph.inputs:
        return 0
    return 1 if len(graph.inputs) > 1 else graph.tensors[graph.inputs[0].tensor].shape[0]
