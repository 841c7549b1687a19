# SPDX-License-Identifier: Apache-2.0
"""Judges a quantised model: which layers lose most, whether that is too much, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from ..frontends.onnx.loops import all_nodes
from .judge import LayerQuality
from .ranges import LEAST_DB, METHODS

LISTED = 3
# The ratio in dB of what is exact.
_EXACT = 200.0


@dataclass(frozen=True)
class Loss:
    """A layer, and the signal-to-noise ratios in dB of the worst of its operands and its result."""

    tensor: str
    op: str
    before: float
    after: float

    @property
    def added(self) -> float:
        """The noise that the layer adds, as a part of its result's signal."""
        return float(10 ** (-self.after / 10) - 10 ** (-self.before / 10))


@dataclass(frozen=True)
class Quality:
    """top1: the share of samples whose largest output is at the same place; snr_db: of the worst
    output; is_classifier: whether that place matters."""

    top1: float
    snr_db: float
    is_classifier: bool

    def shortfall(self, least: float) -> str:
        """The reason why this is not enough, else nothing. least: agreement in percent; if 0,
        everything is enough."""
        if least > 0 and self.is_classifier and self.top1 * 100 < least:
            return f"the largest output is the same for only {self.top1:.1%} of the samples"
        if least > 0 and self.snr_db < LEAST_DB:
            return f"the signal-to-noise ratio of an output is only {self.snr_db:.1f} dB"
        return ""


@dataclass(frozen=True)
class Trial:
    """What the model reaches with another value of an option."""

    option: str
    top1: float
    snr_db: float


def quality_of(
    real: onnx.ModelProto, top1: float, layers: Sequence[LayerQuality], labelled: bool
) -> Quality:
    """Judges the outputs among the tensors of a float model that were compared. labelled: classes
    are known."""
    outputs = {v.name: v.type.tensor_type.elem_type for v in real.graph.output}
    floats = (0, onnx.TensorProto.FLOAT)
    floating = [one for one in layers if outputs.get(one.tensor) in floats and one.op != "ArgMax"]
    ratio = min((one.signal_to_noise for one in floating), default=_EXACT)
    shapes = [one.shape for one in floating if len(outputs) == 1]
    classes = any(len(shape) == 2 and shape[0] == 1 < shape[1] for shape in shapes)
    return Quality(top1, ratio, classes or labelled)


def worst_losses(graph: onnx.GraphProto, layers: Sequence[LayerQuality]) -> tuple[Loss, ...]:
    """The layers that add the most noise."""
    ratios = {layer.tensor: layer for layer in layers}
    # The ratio of each tensor; of one that was not compared, that of its operands.
    known: dict[str, float] = {}
    losses = []
    for node in all_nodes(graph):
        before = min((known.get(name, _EXACT) for name in node.input), default=_EXACT)
        for name in node.output:
            layer = ratios.get(name)
            known[name] = before if layer is None else layer.signal_to_noise
            if layer is not None:
                losses.append(Loss(name, layer.op, before, layer.signal_to_noise))
    return tuple(sorted(losses, key=lambda loss: -loss.added)[:LISTED])


def trials(
    method: str, per_channel: bool, measure: Callable[[str, bool], Quality], before: Quality
) -> Iterator[Trial]:
    """Measures other ranges and scales. Yields those that are better than `before`."""
    others = {f"--calibration-method {name}": (name, per_channel) for name in METHODS}
    others.pop(f"--calibration-method {method}")
    if not per_channel:
        others["no --per-tensor"] = method, True
    for option, how in others.items():
        reached = measure(*how)
        if (reached.top1, reached.snr_db) > (before.top1, before.snr_db):
            yield Trial(option, reached.top1, reached.snr_db)


def remedies(trials: Sequence[Trial], is_int4: bool) -> list[str]:
    """Lists options that may reach more. is_int4: without a limit, all layers have int4 weights."""
    options = [f"{one.option} ({one.top1:.1%}, {one.snr_db:.1f} dB)" for one in trials]
    if is_int4:
        options.append("--flash SIZE, which keeps int8 in the layers that lose most")
    return options
