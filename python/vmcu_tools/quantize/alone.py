# SPDX-License-Identifier: Apache-2.0
"""What int4 weights in one layer alone do to a model: all layers in one session.

The weights and biases of the int8 model become inputs with a default, of float values. A trial
hands the values of another form to one layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .int4 import WeightedLayer, name_of
from .judge import Ratios, pairs_of, showing
from .samples import Samples


def ratios_alone(
    real: onnx.ModelProto,
    forms: tuple[onnx.ModelProto, onnx.ModelProto],
    layers: Sequence[WeightedLayer],
    samples: Samples,
) -> dict[str, Ratios]:
    """Measures by its weights what a form of one layer does to its output and to the model's.

    forms: the model with int8 weights, and with the others in all of `layers`."""
    before, _ = forms
    names = {one.weights: _dequantised(before, one) for one in layers}
    every = [name for some in names.values() for name in some]
    usual, other = (_values(form, every, samples[0]) for form in forms)
    pairs = pairs_of(real, before, [one.output for one in layers])
    wanted = showing(real, list(pairs))
    got = showing(_with_inputs(before, usual), list(pairs.values()))
    outputs = [value.name for value in real.graph.output]
    own = {
        one.weights: list(dict.fromkeys(n for n in (one.output, *outputs) if n in pairs))
        for one in layers
    }
    ratios = {weights: Ratios() for weights in own}
    for sample in samples:
        real_values = dict(zip(pairs, wanted.run(list(pairs), sample), strict=True))
        for weights, tensors in own.items():
            given = {name: other[name] for name in names[weights]}
            values = got.run([pairs[name] for name in tensors], {**sample, **given})
            for name, value in zip(tensors, values, strict=True):
                ratios[weights].add(name, real_values[name], value)
    return ratios


def _dequantised(model: onnx.ModelProto, layer: WeightedLayer) -> list[str]:
    """Finds the float tensors of a layer's weights and bias."""
    nodes = (layer.dequantised, layer.bias)
    return [node.output[0] for node in model.graph.node if name_of(node) in nodes]


def _values(
    model: onnx.ModelProto, names: list[str], sample: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Computes tensors that depend on constants alone."""
    return dict(zip(names, showing(model, names).run(names, dict(sample)), strict=True))


def _with_inputs(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Replaces nodes by inputs that have their values unless a run has others."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [node for node in made.graph.node if node.output[0] not in values]
    del made.graph.node[:]
    made.graph.node.extend(kept)
    for name, value in values.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
        made.graph.input.append(
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape)
        )
    return made
