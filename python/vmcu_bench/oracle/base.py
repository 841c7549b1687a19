# SPDX-License-Identifier: Apache-2.0
"""The interface of an oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from vmcu_tools.graph import Graph, Node

from .promise import Promise


class Oracle(ABC):
    """A runtime with a model loaded. `graph` is the model as the frontend imports it."""

    graph: Graph

    @abstractmethod
    def run(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Every tensor that the runtime can show, int8 (H, W, C), by graph tensor name.

        inputs: int8 values (H, W, C) for `graph.inputs`, in port order.
        """

    @abstractmethod
    def promise(self, graph: Graph, node: Node) -> Promise:
        """Bounds the distance of a node's output from the runtime's, given its own values as
        inputs. The graph may be optimised or not."""

    def equals(self, graph: Graph) -> bool:
        """Whether no byte of any node may differ."""
        return all(self.promise(graph, node).steps == 0 for node in graph.nodes)
