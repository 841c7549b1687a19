# SPDX-License-Identifier: Apache-2.0
"""What importers look at while they import the files of a table of tests: operators and options."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from vmcu_tools.frontends.onnx import file as onnx_file
from vmcu_tools.frontends.tflite import file as tflite_file


@dataclass
class Met:
    """Names of operators, and the values that each option of each of them had; what a file leaves
    out has the value that the importer takes for it."""

    operators: set[str] = field(default_factory=set)
    options: dict[tuple[str, str], set[Any]] = field(default_factory=lambda: defaultdict(set))

    def option(self, op: str, name: str, value: Any) -> None:
        if isinstance(value, (list, np.ndarray)):
            value = tuple(np.asarray(value).ravel().tolist())
        self.options[op, name].add(value.decode() if isinstance(value, bytes) else value)


class _Attributes(dict[str, Any]):
    """The attributes of an ONNX node."""

    def __init__(self, met: Met, op: str, values: dict[str, Any]):
        super().__init__(values)
        self.met, self.op = met, op

    def get(self, name: str, default: Any = None) -> Any:
        value = super().get(name, default)
        self._read(name, value)
        return value

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        self._read(name, value)
        return value

    def _read(self, name: str, value: Any) -> None:
        # A rule of several operators also asks for what only another one has.
        if not onnx.defs.has(self.op) or name in _named(self.op):
            self.met.option(self.op, name, value)


@functools.cache
def _named(op: str) -> set[str]:
    """The attributes that an operator has, or had in some opset."""
    versions = (s for s in onnx.defs.get_all_schemas_with_history() if s.name == op)
    return {name for schema in versions for name in schema.attributes}


class _Options:
    """The options table of a .tflite operator."""

    def __init__(self, met: Met, op: str, table: Any):
        self.met, self.op, self.table = met, op, table

    def __getattr__(self, name: str) -> Any:
        read = getattr(self.table, name)

        def recorded() -> Any:
            value = read()
            self.met.option(self.op, name, value)
            return value

        return recorded


@contextmanager
def watching() -> Iterator[Met]:
    """Collects what importers look at."""
    met = Met()
    attributes_of, options = onnx_file.attributes_of, tflite_file.FileOp.options
    file_op = tflite_file._op

    def attributes(node: onnx.NodeProto) -> dict[str, Any]:
        op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        met.operators.add(op)
        return _Attributes(met, op, attributes_of(node))

    def read(model: Any, op: Any) -> tflite_file.FileOp:
        found = file_op(model, op)
        met.operators.add(found.op)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_file, "attributes_of", attributes)
        patch.setattr(tflite_file, "_op", read)
        patch.setattr(
            tflite_file.FileOp,
            "options",
            lambda op, kind: _Options(met, op.op, options(op, kind)),
        )
        yield met
