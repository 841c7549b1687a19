# SPDX-License-Identifier: Apache-2.0
"""What an oracle is."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..errors import Problem, UserError
from ..graph import Graph, Node

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
    def tolerance(self, node: Node) -> int:
        """The difference in int8 steps that is allowed in the node's output, given the runtime's
        own values as its inputs."""


def required(module: str, package: str, purpose: str) -> ModuleType:
    """Imports an optional package; UserError saying what to install if it is absent. What
    onnxruntime has to say goes into its exceptions, not to standard error."""
    try:
        found = importlib.import_module(module)
        if package == "onnxruntime":
            importlib.import_module(package).set_default_logger_severity(_FATAL)
        return found
    except ImportError as error:
        reason = f"the Python package '{package}' is needed to {purpose} and is not installed"
        raise UserError(Problem(reason, f"Run: pip install {package}")) from error
