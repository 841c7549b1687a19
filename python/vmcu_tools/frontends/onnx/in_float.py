# SPDX-License-Identifier: Apache-2.0
"""The operators and inputs of a file that are not supported, and the message for a float model."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..common import GraphBuilder, parsing
from . import fold
from .context import RULES, Context
from .curves import REQUANTISE
from .file import FileModel, FileNode, read
from .input_scales import consumers

_FLOAT_MODEL = (
    "give calibration data with --calibration FILE.npz, or make an int8 file of it first with "
    "`vmcu quantize`."
)
_STATIC = "start from the float model: `vmcu quantize` makes it int8 with calibration data"
_NO_CONTROL = "export the model without control flow, for one fixed input shape"
_INSIDE = ("the summed values are not quantised", REQUANTISE)
# Operators without support, and the reasons.
_UNSUPPORTED = {
    "ConvInteger": ("the result is int32 without a scale", _STATIC),
    "MatMulInteger": ("the result is int32 without a scale", _STATIC),
    "DynamicQuantizeLinear": ("scales that are chosen at run time are not supported", _STATIC),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), ("a recurrent layer in float", REQUANTISE)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"), _INSIDE),
    "Attention": ("fused attention is not supported", REQUANTISE),
    "RotaryEmbedding": ("rotary embeddings in float", REQUANTISE),
    **dict.fromkeys(
        ("Sum", "Mean"), ("sums of several tensors at once are not supported", REQUANTISE)
    ),
    **dict.fromkeys(("If", "Loop", "Scan"), ("control flow is not supported", _NO_CONTROL)),
}
REWRITTEN = tuple(sorted(op for op, said in _UNSUPPORTED.items() if said[1] == REQUANTISE))
_VECTORS = (
    "pick rows of a constant table with it, by one Gather, or cut the model behind the embedding: "
    "a float input of vectors can be quantised"
)
# Operators of QONNX, which Brevitas and QKeras export.
_QONNX = ("qonnx.custom_op.", "onnx.brevitas.", "finn.custom_op.")
_TO_QCDQ = (
    "convert the file: pip install qonnx, then qonnx-convert MODEL.onnx --output-style qcdq writes "
    "MODEL_qcdq.onnx. Brevitas writes the same with brevitas.export.export_onnx_qcdq."
)
# Operators that an input of row numbers may pass.
_KEEP_NUMBERS: tuple[str, ...] = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
# Operators that pick rows, and which of their inputs are tables.
_TABLES = {"Gather": slice(1), "GatherND": slice(1), "RotaryEmbedding": slice(1, 3)}
_FLOAT32 = "export the model with float32 inputs"
_IN_FLOAT16 = "export it again in float32; in PyTorch, call model.float() first"


def is_quantised(node: FileNode) -> bool:
    return "quantize" in node.op.lower() or ".Q" in f".{node.op}" or node.op.endswith("Integer")


def report_qonnx(context: Context) -> bool:
    """Whether a file is quantised with QONNX's operators; its first one becomes a problem."""
    node = next((node for node in context.model.nodes if node.op.startswith(_QONNX)), None)
    if node is not None:
        reason = "the model is quantised with operators of QONNX, not with QuantizeLinear"
        context.builder.problem(reason, _TO_QCDQ, node.name, node.op)
    return node is not None


def is_unknown(node: FileNode) -> bool:
    return node.op not in RULES and not fold.folds(node)


def refusal(op: str) -> tuple[str, str]:
    """The reason why an operator is not supported, and the remedy."""
    return _UNSUPPORTED.get(op) or _unknown(op)


def _unknown(op: str) -> tuple[str, str]:
    close = difflib.get_close_matches(op, RULES, 3)
    similar = f"; the most similar names are {', '.join(close)}" if close else ""
    remedy = f"replace it; `vmcu inspect --operators` lists the supported operators{similar}"
    return "this operation is not supported", remedy


def check_float(path: Path) -> None:
    """Raises UserError with all operators and inputs of a float model that are not supported once
    it is quantised either, and for a file that cannot be read; says nothing of a quantised one."""
    model = read(path, minimum=1)
    builder = GraphBuilder(str(path))
    context = Context(model, builder)
    with parsing(str(path)):
        dynamic = any(_STATIC in _UNSUPPORTED.get(node.op, ()) for node in model.nodes)
        quantised = any(is_quantised(node) for node in model.nodes)
        if not report_qonnx(context) and (dynamic or not quantised):
            _report(context)
    if builder.problems:
        raise UserError(*builder.problems)


def report(context: Context) -> None:
    """The problems of a float model: those that keep it from being quantised, else the advice to
    quantise it."""
    _report(context)
    if not context.builder.problems:
        context.builder.problem("the model is a float model, not an int8 one", _FLOAT_MODEL)


def _picks_rows(model: FileModel, name: str) -> bool:
    """True if an input is nothing but numbers of rows of constant tables."""
    readers = consumers(model, name, _KEEP_NUMBERS)
    return bool(readers) and all(
        node.op in _TABLES and model.constants.keys() >= {*node.inputs[_TABLES[node.op]]}
        for node in readers
    )


def _report(context: Context) -> None:
    builder, model = context.builder, context.model
    halves = {name for name, array in model.constants.items() if array.dtype == np.float16}
    if any(halves.intersection(node.inputs) for node in model.nodes if node.op != "Cast"):
        builder.problem("the model computes in float16", _IN_FLOAT16)
    for node in model.nodes:
        reason, remedy = refusal(node.op)
        # `vmcu quantize` takes apart the operators of its remedies.
        if is_unknown(node) and remedy != REQUANTISE:
            builder.problem(reason, remedy, node.name, node.op)
    for value in model.inputs:
        if value.name in model.constants or value.dtype == "float32":
            continue
        if value.dtype in ("int32", "int64") and _picks_rows(model, value.name):
            continue
        integers = value.dtype.startswith(("int", "uint"))
        reason = f"the input is {value.dtype}, not float32"
        builder.problem(reason, _VECTORS if integers else _FLOAT32, value.name)
