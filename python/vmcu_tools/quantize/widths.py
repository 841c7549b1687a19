# SPDX-License-Identifier: Apache-2.0
"""Which layers of a quantised model have int4 weights: all that a kernel serves, or as few as bring
the model's flash below a limit."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from ..compiler import compile_model
from ..emit import emit
from ..errors import Problem, UserError, stands_for
from ..frontends.onnx.importer import load
from ..ops import bind
from ..ops.layer import ProgramLayer
from .alone import ratios_alone
from .int4 import OPSET, WeightedLayer, weighted_layers, with_int4
from .int4_scales import Int4Scales
from .judge import Ratios, measured
from .loops import BothModels
from .samples import Samples

# With int4 weights in one layer at a time, at most so many samples are computed.
_TRIAL_SAMPLES = 100
_NO_LESS = "int4 saves no flash"
_NO_LAYER = "vmcu merges it with another layer"


@dataclass(frozen=True)
class Int4:
    """group: inputs of a fully connected layer that share a scale, 0: all of an output channel;
    flash: bytes of weights and tables that the model may have, None: every layer gets int4 weights;
    name: of the model in C, which its tables contain."""

    group: int = 0
    flash: int | None = None
    name: str = "model"


@dataclass(frozen=True)
class LayerWidth:
    """bits and group: of the weights in the file that was written; bytes_int8, bytes_int4: of the
    layer's constants in flash; snr_int8: of its output in dB, if all layers have int8 weights;
    snr_int4, output_snr: of its output and of the model's outputs, if this layer alone has int4
    weights; over 100 of the samples. reason: why the layer cannot have int4 weights, or not in
    groups."""

    node: str
    op: str
    bits: int
    group: int
    bytes_int8: int
    bytes_int4: int
    snr_int8: float | None
    snr_int4: float | None = None
    output_snr: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class WidthReport:
    """layers: in the order in which they get int4 weights, then those that cannot. With int8
    weights and of the file that was written: bytes of the layers' constants; with a limit those of
    all weights and tables, as `vmcu build` prints them, which takes a plan; and the signal-to-noise
    ratio of the model's outputs in dB."""

    layers: tuple[LayerWidth, ...]
    constants_int8: int
    constants: int
    flash_int8: int | None
    flash: int | None
    flash_limit: int | None
    snr_int8: float
    snr: float


def choose_widths(
    models: BothModels, asked: Int4, source: Path
) -> tuple[onnx.ModelProto, WidthReport]:
    """The int8 model with int4 weights in some layers.

    Layers get int4 weights in the order of the error that they add for each byte that they save:
    noise of the model's outputs over the samples, with int4 weights in that layer alone.
    Raises UserError, of the file `source`, if the limit cannot be met."""
    versions = [o.version for o in models.int8.opset_import if o.domain in ("", "ai.onnx")]
    if max(versions, default=0) < OPSET:
        reason = f"int4 weights need opset {OPSET}, to which onnx cannot convert the model"
        raise UserError(Problem(reason, f"export it with opset {OPSET}", str(source)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        stands_for(str(file), str(source))
        forms = _Forms(models, file, asked.name)
        served = _served(forms, asked.group)
        return _chosen(served, models.samples, asked.flash, source)


class _Forms:
    """The forms of a model: with int8 weights, and with int4 weights in some layers. file: where a
    form is written to be imported; name: of the model in C."""

    def __init__(self, models: BothModels, file: Path, name: str):
        self.models, self.file, self.name = models, file, name
        self.real, self.int8 = models.real, models.int8
        self.layers = weighted_layers(self.int8, self.real)
        self.scales = Int4Scales(self.real, self.layers, models.samples)

    def model(self, groups: Mapping[str, int]) -> onnx.ModelProto:
        """groups: by weights of the layers with int4 weights, inputs that share a scale; 0: all of
        an output channel."""
        if not groups:
            return self.int8
        return with_int4(self.int8, self.layers, self.scales.chosen(groups))

    def flash(self, groups: Mapping[str, int]) -> int:
        """Bytes of weights and tables, as `vmcu build` has them."""
        onnx.save(self.models.closed(self.model(groups)), self.file)
        return emit(compile_model(self.file), self.name).flash_bytes

    def constant_bytes(self, groups: Mapping[str, int]) -> dict[str, int]:
        """Counts for each layer the bytes of its constants in flash. Raises UserError where a
        form of weights is not supported."""
        onnx.save(self.model(groups), self.file)
        graph = load(self.file)
        sizes: dict[str, int] = {}
        for node in graph.nodes:
            layer = bind(graph, node)
            size = layer.weight_bytes
            if isinstance(layer, ProgramLayer):
                size = len(layer.binding.stream)
            sizes[node.name] = sizes.get(node.name, 0) + size
        return {layer.weights: sizes.get(layer.node, 0) for layer in self.layers}


@dataclass(frozen=True)
class _Served:
    """groups: by weights of the layers that can have int4 weights, inputs of a group; sizes: bytes
    of constants by weights, in int8 and in int4; reasons: by weights, why not in int4 or not in
    groups."""

    forms: _Forms
    groups: Mapping[str, int]
    sizes: tuple[Mapping[str, int], Mapping[str, int]]
    reasons: Mapping[str, str]

    def saved(self, weights: str) -> int:
        """Bytes of flash that int4 weights save."""
        int8, int4 = (sizes[weights] for sizes in self.sizes)
        return int8 - int4

    def some(self, chosen: Sequence[str]) -> dict[str, int]:
        """The groups of some layers."""
        return {weights: self.groups[weights] for weights in chosen}


def _served(forms: _Forms, group: int) -> _Served:
    """Finds the layers that kernels compute with int4 weights, in less flash than with int8
    weights."""
    groups = {one.weights: group if one.can_group(group) else 0 for one in forms.layers}
    reasons: dict[str, str] = {}
    before, after = forms.constant_bytes({}), None
    while after is None:
        try:
            after = forms.constant_bytes(groups)
        except UserError as error:
            refused = [p for p in error.problems if _refuse(forms, groups, reasons, p)]
            if not refused:
                raise
    for weights in list(groups):
        if after[weights] >= before[weights]:
            reasons[weights] = _NO_LESS if before[weights] else _NO_LAYER
            del groups[weights]
    return _Served(forms, groups, (before, after), reasons)


def _refuse(
    forms: _Forms, groups: dict[str, int], reasons: dict[str, str], problem: Problem
) -> bool:
    """Takes the groups, or else the int4 weights, of the layer that a problem is about."""
    for layer in forms.layers:
        if layer.weights in groups and problem.node in (layer.node, layer.dequantised):
            reasons[layer.weights] = problem.reason
            if groups[layer.weights]:
                groups[layer.weights] = 0
            else:
                del groups[layer.weights]
            return True
    return False


def _chosen(
    served: _Served, samples: Samples, limit: int | None, source: Path
) -> tuple[onnx.ModelProto, WidthReport]:
    """The model whose flash is at most `limit`, and its report."""
    forms, groups = served.forms, served.groups
    some = samples[:: -(-len(samples) // _TRIAL_SAMPLES)]
    before = _measured(forms, {}, some, [layer.output for layer in forms.layers])
    tried = [layer for layer in forms.layers if layer.weights in groups]
    alone = ratios_alone(forms.real, (forms.int8, forms.model(groups)), tried, some)
    rows = {one.weights: _row(served, one, before, alone) for one in forms.layers}
    outputs = [value.name for value in forms.real.graph.output]
    noise = before.noise(outputs)
    added = {weights: alone[weights].noise(outputs) - noise for weights in groups}
    order = sorted(groups, key=lambda weights: added[weights] / served.saved(weights))
    flash = _Flash(served)
    chosen = order
    if limit is not None:
        chosen = _fewest(flash, order, limit, source)
        chosen = _without_spare(flash, chosen, added, limit)
    for weights in chosen:
        rows[weights] = replace(rows[weights], bits=4, group=groups[weights])
    model = forms.model(served.some(chosen))
    listed = [*order, *(weights for weights in rows if weights not in groups)]
    layers = tuple(rows[weights] for weights in listed)
    int8, written = (_measured(forms, served.some(one), samples, []) for one in ([], chosen))
    constants = sum(row.bytes_int8 for row in layers)
    return model, WidthReport(
        layers,
        constants,
        constants - sum(map(served.saved, chosen)),
        None if limit is None else flash([]),
        None if limit is None else flash(chosen),
        limit,
        int8.together(outputs),
        written.together(outputs),
    )


def _measured(
    forms: _Forms, groups: Mapping[str, int], samples: Samples, tensors: Sequence[str]
) -> Ratios:
    """Measures a form against the float model."""
    return measured(forms.real, forms.model(groups), samples, tensors)[1]


def _row(
    served: _Served, layer: WeightedLayer, before: Ratios, alone: Mapping[str, Ratios]
) -> LayerWidth:
    """A layer with int8 weights, and the effect of int4 weights in it alone."""
    weights, output = layer.weights, layer.output
    int8, int4 = (sizes[weights] for sizes in served.sizes)
    reason = served.reasons.get(weights, "")
    row = LayerWidth(layer.node, layer.op, 8, 0, int8, int4, before.known(output), reason=reason)
    if weights not in alone:
        return row
    outputs = [value.name for value in served.forms.real.graph.output]
    ratios = alone[weights]
    return replace(row, snr_int4=ratios.known(output), output_snr=ratios.together(outputs))


class _Flash:
    """Bytes of flash of a model, by the weights that are int4."""

    def __init__(self, served: _Served):
        self.served = served
        self._known: dict[frozenset[str], int] = {}

    def __call__(self, chosen: Sequence[str]) -> int:
        key = frozenset(chosen)
        if key not in self._known:
            self._known[key] = self.served.forms.flash(self.served.some(chosen))
        return self._known[key]


def _fewest(flash: _Flash, order: list[str], limit: int, source: Path) -> list[str]:
    """The first layers of the order, as few as meet the limit. Bytes of constants tell where to
    begin; a plan decides, because its tables are in flash, too."""
    if flash([]) <= limit:
        return []
    if flash(order) > limit:
        reason = f"{flash(order):,} bytes of flash with int4 weights in all layers that support "
        reason += f"them ({flash([]):,} with int8 weights); the limit is {limit:,}"
        raise UserError(Problem(reason, "raise the limit, or make the model smaller", str(source)))
    left = itertools.accumulate(map(flash.served.saved, order), int.__sub__, initial=flash([]))
    count = next((n for n, size in enumerate(left) if size <= limit), len(order))
    while flash(order[:count]) > limit:
        count += 1
    while count and flash(order[: count - 1]) <= limit:
        count -= 1
    return order[:count]


def _without_spare(
    flash: _Flash, chosen: list[str], added: Mapping[str, float], limit: int
) -> list[str]:
    """The chosen layers without those that the limit does not require, because layers behind them
    in the order save more; those that add the most noise go first."""
    for weights in sorted(chosen, key=lambda weights: -added[weights]):
        rest = [one for one in chosen if one != weights]
        spare = limit - flash(chosen)
        if flash.served.saved(weights) <= spare and flash(rest) <= limit:
            chosen = rest
    return chosen
