# SPDX-License-Identifier: Apache-2.0
"""The operators and inputs of a file that are not supported, and the message for a float model."""

from __future__ import annotations

import difflib
from collections.abc import Container

import onnx

from ...errors import UserError
from ..common import GraphBuilder, parsing
from . import fold
from .context import RULES, Context
from .curves import REQUANTISE
from .file import FileModel
from .input_scales import consumers
from .loops import read_opened

_FLOAT_MODEL = (
    "give calibration data with --calibration FILE.npz, or make an int8 file of it first with "
    "`vmcu quantize`."
)
_NO_CONTROL = "export the model without control flow, for one fixed input shape"
_INSIDE = ("the summed values are not quantised", REQUANTISE)
# Operators without support, and the reasons.
_UNSUPPORTED = {
    **dict.fromkeys(("LSTM", "GRU", "RNN", "Scan"), ("a recurrent layer in float", REQUANTISE)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"), _INSIDE),
    "Attention": ("fused attention is not supported", REQUANTISE),
    "Einsum": ("sums of products in float", REQUANTISE),
    "RotaryEmbedding": ("rotary embeddings in float", REQUANTISE),
    **dict.fromkeys(
        ("Sum", "Mean"), ("sums of several tensors at once are not supported", REQUANTISE)
    ),
    "If": ("the condition is not constant", _NO_CONTROL),
    "Loop": ("control flow is not supported", _NO_CONTROL),
}
REWRITTEN = tuple(sorted(op for op, said in _UNSUPPORTED.items() if said[1] == REQUANTISE))
_UNREAD = "give each input of the export a tensor of its own, and leave out those that have no use"
_VECTORS = (
    "give it a fixed value: `vmcu quantize --constant {}=VALUE`; or pick rows of a constant table "
    "with it, by one Gather; or compute from it and constants alone, with calibration data that "
    "have its largest number; or cut the model behind the embedding: a float input of vectors can "
    "be quantised"
)
# Operators of QONNX, which Brevitas and QKeras export.
_QONNX = ("qonnx.custom_op.", "onnx.brevitas.", "finn.custom_op.")
_TO_QCDQ = (
    "convert the file: pip install qonnx, then qonnx-convert MODEL.onnx --output-style qcdq writes "
    "MODEL_qcdq.onnx. Brevitas writes the same with brevitas.export.export_onnx_qcdq."
)
# Operators that an input of row numbers may pass.
KEEP_NUMBERS: tuple[str, ...] = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
# Operators that pick rows, and which of their inputs are tables.
_TABLES = {"Gather": slice(1), "GatherND": slice(1), "RotaryEmbedding": slice(1, 3)}
_FLOAT32 = "export the model with float32 inputs"
_FLOATS = ("float32", "float16", "bfloat16")
# Operators that choose scales from each input.
_AT_RUN_TIME = ("DynamicQuantizeLinear", "com.microsoft.DynamicQuantizeLSTM")


def is_quantised(op: str) -> bool:
    return "quantize" in op.lower() or ".Q" in f".{op}" or op.endswith("Integer")


def report_qonnx(context: Context) -> bool:
    """Whether a file is quantised with QONNX's operators; its first one becomes a problem."""
    node = next((node for node in context.model.nodes if node.op.startswith(_QONNX)), None)
    if node is not None:
        reason = "the model is quantised with operators of QONNX, not with QuantizeLinear"
        context.builder.problem(reason, _TO_QCDQ, node.name, node.op)
    return node is not None


def refusal(op: str) -> tuple[str, str]:
    """The reason why an operator is not supported, and the remedy."""
    return _UNSUPPORTED.get(op) or _unknown(op)


def _unknown(op: str) -> tuple[str, str]:
    close = difflib.get_close_matches(op, RULES, 3)
    similar = f"; the most similar names are {', '.join(close)}" if close else ""
    remedy = f"replace it; `vmcu inspect --operators` lists the supported operators{similar}"
    return "this operation is not supported", remedy


def check_float(model: onnx.ModelProto, file: str) -> None:
    """Raises UserError with all operators and inputs of a float model that are not supported once
    it is quantised either. file: for messages."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    builder = GraphBuilder(file)
    context = Context(read_opened(copy, file, minimum=1), builder)
    with parsing(file):
        context.constant_nodes = fold.constant_nodes(context.model)
        if not report_qonnx(context):
            _report(context)
    if builder.problems:
        raise UserError(*builder.problems)


def report(context: Context) -> bool:
    """Whether a model computes in float, quantised at run time or not. If so, reports the problems
    that keep it from being quantised, else the advice to quantise it."""
    nodes = context.model.nodes
    if any(node.op in _AT_RUN_TIME for node in nodes):
        reason = "the model chooses its scales at run time (dynamic quantisation)"
        context.builder.problem(reason, _FLOAT_MODEL)
        return True
    if any(is_quantised(node.op) for node in nodes):
        return False
    _report(context)
    if not context.builder.problems:
        context.builder.problem("the model is a float model, not an int8 one", _FLOAT_MODEL)
    return True


def _picks_rows(model: FileModel, name: str) -> bool:
    """True if an input is nothing but numbers of rows of constant tables."""
    readers = consumers(model, name, KEEP_NUMBERS)
    return bool(readers) and all(
        node.op in _TABLES and model.constants.keys() >= {*node.inputs[_TABLES[node.op]]}
        for node in readers
    )


def picks_rows(graph: onnx.GraphProto, node: onnx.NodeProto, numbers: Container[str]) -> int:
    """Returns the number of rows of the float table from which a node picks by these numbers; 0 if
    it does something else."""
    if node.op_type not in _TABLES or node.input[-1] not in numbers:
        return 0
    tables = {*node.input[_TABLES[node.op_type]]}
    rows = [t.dims[0] for t in graph.initializer if t.name in tables and len(t.dims) > 1]
    return min(rows, default=0)


def _report(context: Context) -> None:
    builder, model = context.builder, context.model
    for node in model.nodes:
        reason, remedy = refusal(node.op)
        # `vmcu quantize` takes apart the operators of its remedies.
        is_known = node.op in RULES or node in context.constant_nodes
        if not is_known and remedy != REQUANTISE:
            builder.problem(reason, remedy, node.name, node.op)
    for value in model.inputs:
        if value.name in model.constants or value.dtype in _FLOATS:
            continue
        if value.dtype in ("int32", "int64") and _picks_rows(model, value.name):
            continue
        integers = value.dtype.startswith(("int", "uint"))
        reason = f"the input is {value.dtype}, not float32"
        hint = _VECTORS.format(value.name) if integers else _FLOAT32
        if not consumers(model, value.name, ()):
            reason, hint = "no node reads the input", _UNREAD
        builder.problem(reason, hint, value.name)
