# SPDX-License-Identifier: Apache-2.0
"""What an oracle is."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..errors import missing_package
from ..graph import Graph, Node
from .promise import Promise

# Of onnxruntime's logger.
_FATAL = 4
_LONGEST_LINE = 300


def one_line(error: Exception) -> str:
    """What a runtime's exception says, as one line of a message."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}..."


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
        """How far the output of a node of the graph, optimised or not, may be from the runtime's,
        given its own values as inputs."""

    def equals(self, graph: Graph) -> bool:
        """Whether no byte of any node may differ."""
        return all(self.promise(graph, node).steps == 0 for node in graph.nodes)


def required(module: str, package: str, purpose: str, extra: str = "verify") -> ModuleType:
    """Imports a package of an extra; raises UserError with the command that installs it if it is
    absent. onnxruntime reports problems in its exceptions, not on standard error."""
    try:
        found = importlib.import_module(module)
        if package == "onnxruntime":
            importlib.import_module(package).set_default_logger_severity(_FATAL)
        return found
    except ImportError as error:
        raise missing_package(package, purpose, extra) from error
