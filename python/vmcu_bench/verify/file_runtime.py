# SPDX-License-Identifier: Apache-2.0
"""The runtime of a file, call by call, with the states that the file has no variables for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.passes.state.connect import latest

from .. import oracle
from ..oracle import whole
from ..runners.borders import to_file, to_memory

Values = list[np.ndarray]


@dataclass(frozen=True, eq=False)
class RuntimeCall:
    """All inputs and outputs of a call, states among them, in the file's form and order."""

    inputs: Values
    outputs: Values


class FileRuntime:
    """The runtime of the file of `graph`, whose states it is given back call by call.

    `file` is the graph of the file as it is, with inputs and outputs for states. `exact`: the
    runtime equals the file's reference semantics in every byte. `keeps`: it keeps states in
    variables. Raises UserError where the runtime cannot run the file.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.oracle = oracle.open(graph.origin)
        self.file = self.oracle.graph
        try:
            self._run, exact = whole.runner(Path(graph.origin), self.file)
        except whole.UnfitError:
            # The oracle has the file in a form that the runtime does run.
            self._run, exact = self._by_oracle, True
        self.exact = exact and self.oracle.equals(self.file)
        self.keeps = bool(graph.state.names) and not graph.state.pairs
        self._states = self._first_states()

    @property
    def steps(self) -> int:
        """Returns the steps by which an output of one call may be off, if its inputs are the
        runtime's."""
        makers = [self.file.producer(port.tensor) for port in self.file.outputs]
        promises = [self.oracle.promise(self.file, maker) for maker in makers if maker]
        return max((one.steps for one in promises), default=0)

    def call(self, window: np.ndarray) -> RuntimeCall:
        """Runs the next call: rows int8 (H, W, C) of the graph's input, and the states of the call
        before."""
        inputs = self._inputs(window, self._states)
        outputs = self._run(inputs)
        self._states = self._states_of(outputs)
        return RuntimeCall(inputs, outputs)

    def _by_oracle(self, inputs: Sequence[np.ndarray]) -> Values:
        results = self.oracle.run(self.memory(inputs))
        return [to_file(results[port.tensor], self.file, port) for port in self.file.outputs]

    def answer(self, outputs: Values) -> np.ndarray:
        """Returns a call's outputs that are no states as int64 bytes, one behind the other."""
        named = {port.name: one for port, one in zip(self.file.outputs, outputs, strict=True)}
        parts = [to_memory(named[port.name], self.graph, port) for port in self.graph.outputs]
        return np.concatenate([np.ravel(part) for part in parts]).astype(np.int64)

    def memory(self, inputs: Sequence[np.ndarray]) -> Values:
        """Converts inputs of a call to int8 (H, W, C) of the file's graph."""
        pairs = zip(inputs, self.file.inputs, strict=True)
        return [to_memory(values, self.file, port) for values, port in pairs]

    def computed(self, inputs: Values) -> Values:
        """Computes a call's outputs by the reference semantics of the file's graph."""
        results = reference.run(self.file, self.memory(inputs))
        return [to_file(results[port.tensor], self.file, port) for port in self.file.outputs]

    def reference(self, windows: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Computes the answers of all calls by the reference semantics, with its own states."""
        states = self._first_states()
        for window in windows:
            outputs = self.computed(self._inputs(window, states))
            states = self._states_of(outputs)
            yield self.answer(outputs)

    def _first_states(self) -> dict[str, np.ndarray]:
        """The states in front of the first call, by input: zero."""
        names = {ahead for ahead, _ in self.graph.state.pairs}
        return {
            port.name: to_file(np.full(tensor.shape, tensor.zero_point, np.int8), self.file, port)
            for port in self.file.inputs
            if port.name in names
            for tensor in (self.file.tensors[port.tensor],)
        }

    def _states_of(self, outputs: Values) -> dict[str, np.ndarray]:
        """The states behind a call, by input. States that the runtime has in float and the file
        does not quantise are given back as the target's bytes."""
        ends = zip(self.file.outputs, outputs, strict=True)
        bytes_of = {
            port.name: to_file(to_memory(v, self.file, port), self.file, port) for port, v in ends
        }
        ahead = {port.name: port for port in self.file.inputs}
        pairs = self.graph.state.pairs
        return {one: latest(bytes_of[other], ahead[one]) for one, other in pairs}

    def _inputs(self, window: np.ndarray, states: Mapping[str, np.ndarray]) -> Values:
        """All inputs of a call in the file's form: of a window int8 (H, W, C), and of states."""
        if self.graph.state.row_fields:
            firsts = [one.first for one in self.graph.state.row_fields[1:]]
            parts = np.split(window.ravel(), firsts)
            named = {
                f.port.name: part
                for f, part in zip(self.graph.state.row_fields, parts, strict=True)
            }
            rows = {
                p.name: to_file(named[p.name], self.file, p)
                for p in self.file.inputs
                if p.name in named
            }
        else:
            (port,) = self.graph.inputs
            rows = {port.name: to_file(window, self.graph, port)}
        return [(states if port.name in states else rows)[port.name] for port in self.file.inputs]
