# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite files to graphs, node for node, with TensorFlow Lite Micro's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ...graph import Graph, Port, RecurrentState, State, Tensor
from ...paths import import_modules
from ...quant import INT8_MAX, INT8_MIN
from .. import common, constant_outputs
from . import wide
from .constants import computed
from .embedding import is_numbers, numbers
from .file import FileModel, FileOp, FileTensor
from .float import TABULATED, float_operator, is_float
from .fold import fold
from .kinds import Kind, kind_of
from .offline import offsets_of
from .ops import CONSTRAINTS, RULES, SEVERAL_OUTPUTS, Importer, quantisation_of
from .shapes import image_shape
from .states import own_states, read

# Fills RULES.
import_modules(__package__)

__all__ = ["CONSTRAINTS", "RULES", "import_model", "load"]

NOT_SUPPORTED = "this operation is not supported"
REPLACE = "replace it; `vmcu inspect --operators` lists the supported operators"
_NO_CONTROL = "export one inference function, without control flow"
INT8_OUTPUTS = "convert with int8 outputs: inference_output_type = tf.int8"


def load(path: Path) -> Graph:
    """The graph of a .tflite file; UserError with all its problems."""
    model = read(path)
    kind = kind_of(model)
    with common.parsing(str(path)):
        if kind is None:
            folded = computed(fold(model).model, lambda part: import_model(part, str(path)))
            builder = import_model(folded, str(path))
        else:
            builder = _of_another_kind(model, kind, str(path))
    graph = replace(builder.finish(path.stem), offline=offsets_of(path))
    return _with_states(graph, model)


def _with_states(graph: Graph, model: FileModel) -> Graph:
    """The graph without the inputs and outputs at the end that are states: one for each of the
    model's `begins`."""
    first = len(graph.inputs) - len(model.begins), len(graph.outputs) - len(model.begins)
    ends = zip(graph.inputs[first[0] :], graph.outputs[first[1] :], model.begins, strict=True)
    found = (RecurrentState(before.tensor, after.tensor, value) for before, after, value in ends)
    state = State(names=model.states, recurrent=(*graph.state.recurrent, *found))
    inputs, outputs = graph.inputs[: first[0]], graph.outputs[: first[1]]
    return replace(graph, inputs=inputs, outputs=outputs, state=state)


def import_model(model: FileModel, file: str) -> common.GraphBuilder:
    """The graph, or its problems; `file`: the model's name in these."""
    builder = common.GraphBuilder(file)
    importer = Importer(model, builder, _Activations(model, builder))
    borders = _Borders(model, builder, importer)
    borders.inputs()
    known = {*model.inputs, *borders.skipped_outputs, *own_states(model)}
    for index, op in enumerate(model.ops):
        if index not in borders.skipped and op not in importer.done:
            _node(importer, op, known)
        known.update(op.outputs)
    borders.outputs(known)
    return builder


def _of_another_kind(model: FileModel, kind: Kind, file: str) -> common.GraphBuilder:
    """Reports a file that is no int8 network, and the operators that will not be supported
    either once it is converted as it should be."""
    builder = common.GraphBuilder(file)
    builder.problem(kind.reason, kind.remedy)
    for op in model.ops:
        if op.op not in RULES and op.op not in TABULATED and op.op not in kind.ops:
            name = model.tensors[op.outputs[0]].name if op.outputs else ""
            builder.problem(NOT_SUPPORTED, REPLACE, name, op.op)
    return builder


def _node(importer: Importer, op: FileOp, known: set[int]) -> None:
    model, builder = importer.model, importer.builder
    name = model.tensors[op.outputs[0]].name if op.outputs else ""
    try:
        if op.op == "IF":
            raise common.UnsupportedError("the condition is not constant", _NO_CONTROL)
        rule = float_operator if is_float(importer, op) else RULES.get(op.op)
        if rule is None:
            raise common.UnsupportedError(NOT_SUPPORTED, REPLACE)
        op.check_options()
        one = len(op.outputs) == 1 or (op.op in SEVERAL_OUTPUTS and len(op.outputs) > 1)
        common.require(one, f"{len(op.outputs)} outputs instead of one")
        common.require(known.isdisjoint(op.outputs), f"tensor '{name}' is computed twice")
        unsigned = any(
            model.tensors[i].type == "UINT8" for i in (*op.inputs, *op.outputs) if i >= 0
        )
        common.require(
            op.op == "QUANTIZE" or not unsigned,
            "the tensors are uint8, not int8",
            common.KEEP_QUANTISATION,
        )
        rule(importer, op)
        for i in op.inputs:
            ready = i < 0 or i in known or model.tensors[i].data is not None
            common.require(ready, f"tensor '{model.tensors[i].name}' is used before it is computed")
        return
    except common.UnsupportedError as error:
        builder.problem(error.reason, error.remedy, name, op.op)
    except common.PassedOverError:
        pass
    except common.PARSE_ERRORS as error:
        builder.problem(common.unexpected(error), common.REPORT_DEFECT, name, op.op)
    importer.activation.pass_over(op.outputs)


class _Activations:
    """The graph tensors of a file's activations; each problem with one is raised once."""

    def __init__(self, model: FileModel, builder: common.GraphBuilder):
        self.model = model
        self.builder = builder
        self._reported: set[int] = set()

    def pass_over(self, outputs: tuple[int, ...]) -> None:
        """Reports no outputs, of an operator that has failed, that are not int8."""
        tensors = self.model.tensors
        self._reported.update(i for i in outputs if tensors[i].type not in ("INT8", "UINT8"))

    def __call__(self, index: int) -> Tensor:
        common.require(index >= 0, "a required tensor is missing")
        if index in self._reported:
            raise common.PassedOverError
        try:
            return self.builder.add_tensor(_tensor(self.model.tensors[index]))
        except common.UnsupportedError:
            self._reported.add(index)
            raise


def _tensor(tensor: FileTensor) -> Tensor:
    """An int8 or uint8 activation; uint8 is relabelled as q - 128."""
    what = f"tensor '{tensor.name}'"
    other = f"{what} is {tensor.type.lower()}, not int8"
    common.require(tensor.type in ("INT8", "UINT8"), other, common.KEEP_QUANTISATION)
    scale, zero_point = quantisation_of(tensor)
    zero_point -= 128 if tensor.type == "UINT8" else 0
    common.require(INT8_MIN <= zero_point <= INT8_MAX, f"{what} has the zero point {zero_point}")
    return Tensor(tensor.name, image_shape(tensor.shape), scale, zero_point)


class _Borders:
    """Graph inputs and outputs. QUANTIZE of a float input and DEQUANTIZE to a float output are
    left out; the port then says float32 and names the int8 tensor."""

    def __init__(self, model: FileModel, builder: common.GraphBuilder, importer: Importer):
        self.model = model
        self.builder = builder
        self.importer = importer
        self.skipped: set[int] = set()
        self.skipped_outputs: set[int] = set()

    def inputs(self) -> None:
        for index in dict.fromkeys(self.model.inputs):
            tensor = self.model.tensors[index]
            times = self.model.inputs.count(index)
            if times > 1:
                self.builder.repeated_input(tensor.name, times)
                continue
            inner = index
            if tensor.type == "FLOAT32":
                ops = enumerate(self.model.ops)
                matching = [n for n, op in ops if op.op == "QUANTIZE" and op.inputs == (index,)]
                self.skipped.update(matching)
                quantisers = [self.model.ops[number] for number in matching]
                if len(quantisers) != 1:
                    self.builder.problem(
                        f"the float input '{tensor.name}' is quantised {len(quantisers)} times",
                        "quantise the input once, or convert with an int8 input",
                        tensor.name,
                    )
                    continue
                inner = quantisers[0].outputs[0]
                self.skipped_outputs.add(inner)
            if is_numbers(self.model, index):
                self._port(self.builder.inputs, tensor, partial(numbers, self.importer, index))
                continue
            made = partial(self.importer.activation, inner)
            if tensor.type == "INT16":
                made = partial(wide.activation, self.importer, index)
            self._port(self.builder.inputs, tensor, made)

    def outputs(self, known: set[int]) -> None:
        importer = self.importer
        for index in self.model.outputs:
            tensor = self.model.tensors[index]
            derived = self.importer.derived.get(index)
            if index in importer.wide:
                wide_name = importer.wide[index].name
                dtype = tensor.type.lower()
                self.builder.outputs.append(Port(wide_name, tensor.name, tensor.shape, dtype))
                continue
            if tensor.data is not None and index not in known:
                self._constant(tensor)
            elif index not in known:
                self.builder.problem(f"the output '{tensor.name}' is never computed")
            elif derived is None:
                self._port(self.builder.outputs, tensor, partial(importer.activation, index))
            elif derived.plain:
                self._port(self.builder.outputs, tensor, partial(getattr, derived, "source"))
            else:
                self.builder.problem("this output is computed in float", INT8_OUTPUTS, tensor.name)

    def _constant(self, tensor: FileTensor) -> None:
        """An output that no operator computes: its values are in the file."""
        try:
            if tensor.type == "FLOAT32":
                constant_outputs.drop(self.builder, tensor.name)
            elif tensor.type in ("INT32", "INT64"):
                constant_outputs.write_integers(self.builder, tensor.name, tensor.values)
            else:
                output = _tensor(replace(tensor, data=None))
                values = tensor.values.astype(np.int16) - 128 * (tensor.type == "UINT8")
                constant_outputs.write(self.builder, output, values.astype(np.int8))
                self._port(self.builder.outputs, tensor, lambda: output)
        except common.UnsupportedError as error:
            self.builder.problem(error.reason, error.remedy, tensor.name)

    def _port(self, ports: list[Port], tensor: FileTensor, inner: Callable[[], Tensor]) -> None:
        try:
            name = inner().name
        except common.UnsupportedError as error:
            self.builder.problem(error.reason, error.remedy, tensor.name)
            return
        except common.PassedOverError:
            return
        dtype = tensor.type.lower()
        ports.append(Port(name, tensor.name, tensor.shape, dtype, half_away=True))
