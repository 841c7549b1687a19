# SPDX-License-Identifier: Apache-2.0
"""Writes streaming speech networks as float ONNX files, with calibration data.

    python benchmarks/speech/make.py DIR

enhancer.onnx has the layers of GTCRN (Rong et al., ICASSP 2024) and vad.onnx those of Silero VAD,
at a smaller size. Weights are random, from a seed, or those of train.py (NAME-trained). One call is
one spectral frame or one frame of samples; caches and hidden states are inputs and outputs, named
as exporters name them. NAME.npz has calibration data: the sounds of sound.py, and the states that
ONNX Runtime computes over them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = Path(__file__).resolve().parent
sys.path.append(str(WEIGHTS))

from calls import calibration, frames_of  # noqa: E402

OPSET = 17


@dataclass(frozen=True)
class Enhancer:
    """bins: of a spectral frame; the lowest `low` go on as they are, the others become `bands`.
    dilations: of the encoder's depthwise layers along time, each of which keeps 2 * dilation rows.
    layers: of GRUs along frequency and along time."""

    bins: int = 33
    low: int = 9
    bands: int = 8
    channels: int = 8
    dilations: tuple[int, ...] = (1, 2, 5)
    layers: int = 2

    @property
    def widths(self) -> tuple[int, int, int]:
        """Along frequency: of the bands, and behind each strided convolution."""
        first = self.low + self.bands
        return first, (first + 1) // 2, ((first + 1) // 2 + 1) // 2


@dataclass(frozen=True)
class Detector:
    """samples: of a call; window and step: of the short-time transform; units: of the LSTM."""

    samples: int = 128
    window: int = 64
    step: int = 32
    channels: tuple[int, ...] = (32, 16, 16, 32)
    units: int = 64


class Network:
    """An ONNX graph that grows node by node; each method returns the name of a tensor."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.outputs: dict[str, tuple[int, ...]] = {}

    def add(self, op: str, *inputs: Any, outputs: int = 1, **given: Any) -> Any:
        """A node; arrays among the inputs become constants."""
        label = f"/{op}_{len(self.nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        made = [f"{label}_output_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, label, **given))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any) -> str:
        array = np.asarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"onnx::{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int, inputs: int, gain: float = 1.0) -> np.ndarray:
        """Normal numbers whose sums over `inputs` products keep the variance of the input."""
        return self.rng.normal(size=shape) * gain / inputs**0.5

    def input(self, name: str, *shape: int) -> str:
        self.inputs[name] = shape
        return name

    def output(self, name: str, source: str, *shape: int) -> None:
        self.outputs[name] = shape
        self.nodes.append(helper.make_node("Identity", [source], [name], f"/{name}"))

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, np.array(shape))

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        return self.add("Slice", x, *(np.array([n]) for n in (start, end, axis)))

    def conv(self, x: str, ins: int, outs: int, kernel: Sequence[int], **given: Any) -> str:
        count = ins // given.get("group", 1)
        reads = count * int(np.prod(kernel))
        bias = 0.1 * self.rng.normal(size=outs)
        return self.add("Conv", x, self.weights(outs, count, *kernel, inputs=reads), bias, **given)

    def dense(self, x: str, ins: int, outs: int) -> str:
        made = self.add("MatMul", x, self.weights(ins, outs, inputs=ins))
        return self.add("Add", 0.1 * self.rng.normal(size=outs), made)

    def recurrent(self, op: str, x: str, size: tuple[int, int], *states: str, both: bool = False):
        """x: (steps, batch, inputs); size: (inputs, units). Returns Y and its last states."""
        ins, units = size
        sides, gates = 1 + both, {"GRU": 3, "LSTM": 4}[op]
        arrays = (
            self.weights(sides, gates * units, ins, inputs=ins),
            self.weights(sides, gates * units, units, inputs=units),
            0.1 * self.rng.normal(size=(sides, 2 * gates * units)),
        )
        given = {"direction": "bidirectional"} if both else {}
        given |= {"linear_before_reset": 1} if op == "GRU" else {}
        begins = ["", *states] if states else []
        outputs = {"GRU": 2, "LSTM": 3}[op]
        return self.add(op, x, *arrays, *begins, outputs=outputs, hidden_size=units, **given)

    def model(self, name: str) -> onnx.ModelProto:
        ports = (
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()]
            for side in (self.inputs, self.outputs)
        )
        graph = helper.make_graph(self.nodes, name, *ports, self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


class _EnhancerNetwork(Network):
    """Tensors are (1, channels, 1, frequencies), one row of time."""

    def __init__(self, size: Enhancer, seed: int):
        super().__init__(seed)
        self.size = size
        self.numbers = iter(range(100))

    def build(self) -> onnx.ModelProto:
        size = self.size
        count, (first, second, third) = size.channels, size.widths
        mix = self.input("mix", 1, size.bins, 1, 2)
        self.outputs["enh"] = ()  # before the states' outputs
        spectrum = self.add("Transpose", mix, perm=[0, 3, 2, 1])
        re, im = self.add("Split", spectrum, np.array([1, 1]), outputs=2, axis=1)
        squares = [self.add("Pow", part, np.array(2.0)) for part in (re, im)]
        power = self.add("Add", self.add("Add", *squares), np.array(1e-12))
        x = self.add("Concat", self.add("Sqrt", power), re, im, axis=1)
        x = self.neighbours(self.bands(x, size.bins - size.low, size.bands), 3, first)
        strided = {"strides": [1, 2], "pads": [0, 2, 0, 2]}
        skips = [self.slope(self.conv(x, 9, count, (1, 5), **strided))]
        skips.append(self.slope(self.conv(skips[0], count, count, (1, 5), group=2, **strided)))
        for dilation in size.dilations:
            skips.append(self.temporal(skips[-1], dilation))
        x = skips[-1]
        for _ in range(size.layers):
            x = self.dual_path(x, third)
        for dilation in reversed(size.dilations):
            x = self.temporal(self.add("Add", x, skips.pop()), dilation)
        x = self.add("Add", x, skips.pop())
        x = self.slope(self.transposed(x, count, count, second, group=2))
        x = self.transposed(self.add("Add", x, skips.pop()), count, 2, first)
        mask = self.bands(self.add("Tanh", x), size.bands, size.bins - size.low)
        mr, mi = self.add("Split", mask, np.array([1, 1]), outputs=2, axis=1)
        products = [self.add("Mul", *pair) for pair in ((re, mr), (im, mi), (re, mi), (im, mr))]
        parts = self.add("Sub", *products[:2]), self.add("Add", *products[2:])
        enhanced = self.add("Transpose", self.add("Concat", *parts, axis=1), perm=[0, 3, 2, 1])
        self.output("enh", enhanced, 1, size.bins, 1, 2)
        return self.model("enhancer")

    def bands(self, x: str, before: int, after: int) -> str:
        """The frequencies above the lowest ones become others, by a matrix."""
        low = self.slice(x, 3, 0, self.size.low)
        high = self.slice(x, 3, self.size.low, self.size.low + before)
        matrix = self.weights(before, after, inputs=before)
        return self.add("Concat", low, self.add("MatMul", high, matrix), axis=3)

    def neighbours(self, x: str, count: int, width: int) -> str:
        """Each frequency with the one below and the one above it, as PyTorch writes Unfold."""
        padded = self.add("Pad", x, np.array([0, 0, 0, 1, 0, 0, 0, 1]))
        places = np.arange(3)[:, None] + np.arange(width)
        gathered = self.add("Gather", padded, places, axis=3)
        turned = self.add("Transpose", gathered, perm=[0, 1, 3, 2, 4])
        return self.reshape(turned, 1, 3 * count, 1, width)

    def slope(self, x: str) -> str:
        return self.add("PRelu", x, np.full((1, 1, 1), 0.25))

    def transposed(self, x: str, ins: int, outs: int, width: int, group: int = 1) -> str:
        """A ConvTranspose to `width` frequencies, and its BatchNormalization."""
        weights = self.weights(ins, outs // group, 1, 5, inputs=3 * ins // group)
        before = (width + 1) // 2
        more = width - (2 * before - 1)
        given = {"strides": [1, 2], "pads": [0, 2, 0, 2], "output_padding": [0, more]}
        made = self.add("ConvTranspose", x, weights, np.zeros(outs), group=group, **given)
        gain, offset, mean = 0.1 * self.rng.normal(size=(3, outs))
        return self.add("BatchNormalization", made, 1 + gain, offset, mean, np.ones(outs))

    def temporal(self, x: str, dilation: int) -> str:
        """Half the channels go through a depthwise convolution over time and an attention."""
        half, width, count = self.size.channels // 2, self.size.widths[2], self.size.channels
        number = next(self.numbers)
        given, left = self.add("Split", x, np.array([half, half]), outputs=2, axis=1)
        made = self.neighbours(given, half, width)
        made = self.slope(self.conv(made, 3 * half, count, (1, 1)))
        rows = 2 * dilation
        cache = self.input(f"conv_cache.{number}", 1, count, rows, width)
        joined = self.add("Concat", cache, made, axis=2)
        self.output(
            f"conv_cache_out.{number}", self.slice(joined, 2, 1, rows + 1), 1, count, rows, width
        )
        form = {"group": count, "dilations": [dilation, 1], "pads": [0, 1, 0, 1]}
        made = self.slope(self.conv(joined, count, count, (3, 3), **form))
        made = self.attended(self.conv(made, count, half, (1, 1)), half, number)
        both = [self.add("Unsqueeze", one, np.array([2])) for one in (made, left)]
        return self.reshape(self.add("Concat", *both, axis=2), 1, count, 1, width)

    def attended(self, x: str, half: int, number: int) -> str:
        """Temporal recurrent attention: a factor for each channel, of a GRU over its energy."""
        energy = self.add("ReduceMean", self.add("Pow", x, np.array(2.0)), axes=[3], keepdims=0)
        state = self.input(f"tra_cache.{number}", 1, 1, 2 * half)
        turned = self.add("Transpose", energy, perm=[2, 0, 1])
        y, end = self.recurrent("GRU", turned, (half, 2 * half), state)
        self.output(f"tra_cache_out.{number}", end, 1, 1, 2 * half)
        seen = self.add("Transpose", self.add("Squeeze", y, np.array([1])), perm=[1, 0, 2])
        factor = self.add("Sigmoid", self.dense(seen, 2 * half, half))
        turned = self.add("Transpose", factor, perm=[0, 2, 1])
        return self.add("Mul", x, self.add("Unsqueeze", turned, np.array([3])))

    def dual_path(self, x: str, width: int) -> str:
        """A grouped GRU along frequency in both directions, then one along time with a state."""
        count, number = self.size.channels, next(self.numbers)
        lines = self.reshape(self.add("Transpose", x, perm=[0, 2, 3, 1]), width, 1, count)
        made = self.grouped(lines, count // 4, both=True)
        within = self.normed(self.reshape(made, 1, 1, width, count), width, lines)
        steps = self.reshape(within, 1, width, count)
        state = self.input(f"inter_cache.{number}", 1, width, count)
        parts = self.add("Split", state, np.array([count // 2] * 2), outputs=2, axis=2)
        made, end = self.grouped(steps, count // 2, parts)
        self.output(f"inter_cache_out.{number}", end, 1, width, count)
        over = self.normed(self.reshape(made, 1, 1, width, count), width, within)
        return self.add("Transpose", over, perm=[0, 3, 1, 2])

    def grouped(self, x: str, units: int, states: Sequence[str] = (), both: bool = False) -> Any:
        """Two GRUs, each of half the channels; with states also those behind the last step."""
        half = self.size.channels // 2
        halves = self.add("Split", x, np.array([half, half]), outputs=2, axis=2)
        made, ends = [], []
        for place, part in enumerate(halves):
            y, end = self.recurrent(
                "GRU", part, (half, units), *states[place : place + 1], both=both
            )
            if both:
                turned = self.add("Transpose", y, perm=[0, 2, 1, 3])
                made.append(self.add("Reshape", turned, np.array([0, 0, -1])))
            else:
                made.append(self.add("Squeeze", y, np.array([1])))
            ends.append(end)
        joined = self.add("Concat", *made, axis=2)
        return (joined, self.add("Concat", *ends, axis=2)) if states else joined

    def normed(self, x: str, width: int, other: str) -> str:
        """A dense layer, a LayerNormalization over frequencies and channels, and a sum."""
        count = self.size.channels
        gain, offset = 0.1 * self.rng.normal(size=(2, width, count))
        made = self.add(
            "LayerNormalization",
            self.dense(x, count, count),
            1 + gain,
            offset,
            axis=2,
            epsilon=1e-8,
        )
        return self.add("Add", self.reshape(other, 1, 1, width, count), made)


def enhancer(size: Enhancer = Enhancer(), seed: int = 0) -> onnx.ModelProto:
    """mix (1, bins, 1, 2) to enh, with a cache or a hidden state for each layer that keeps one."""
    return _EnhancerNetwork(size, seed).build()


def detector(size: Detector = Detector(), seed: int = 0) -> onnx.ModelProto:
    """input (1, samples) to output (1, 1), with the states h and c (1, 1, units) of an LSTM."""
    net = Network(seed)
    samples = net.input("input", 1, size.samples)
    h, c = (net.input(name, 1, 1, size.units) for name in "hc")
    bins = size.window // 2 + 1
    turns = 2 * np.pi * np.outer(np.arange(bins), np.arange(size.window)) / size.window
    basis = np.concatenate([np.cos(turns), -np.sin(turns)]) * np.hanning(size.window + 1)[:-1]
    x = net.add("Unsqueeze", samples, np.array([1]))
    edge = size.window // 4
    x = net.add("Pad", x, np.array([0, 0, edge, 0, 0, edge]), mode="reflect")
    x = net.add("Conv", x, basis[:, None], strides=[size.step])
    parts = [net.slice(x, 1, *ends) for ends in ((0, bins), (bins, 2 * bins))]
    squares = [net.add("Pow", part, np.array(2.0)) for part in parts]
    x = net.add("Sqrt", net.add("Add", *squares))
    ins = bins
    for place, outs in enumerate(size.channels):
        stride = 2 if place in (1, 2) else 1
        x = net.conv(x, ins, outs, (3,), strides=[stride], pads=[1, 1])
        x, ins = net.add("Relu", x), outs
    steps = net.add("Transpose", x, perm=[2, 0, 1])
    y, hn, cn = net.recurrent("LSTM", steps, (ins, size.units), h, c)
    x = net.add("Transpose", net.add("Squeeze", y, np.array([1])), perm=[1, 2, 0])
    x = net.add("Sigmoid", net.conv(net.add("Relu", x), size.units, 1, (1,)))
    x = net.add("ReduceMean", net.add("Squeeze", x, np.array([1])), axes=[1], keepdims=1)
    net.output("output", x, 1, 1)
    net.output("hn", hn, 1, 1, size.units)
    net.output("cn", cn, 1, 1, size.units)
    return net.model("vad")


def learned(make: Callable[..., onnx.ModelProto]) -> list[str]:
    """The constants of a network that training changes: those that another seed changes."""
    one, other = (make(seed=seed).graph.initializer for seed in (0, 1))
    pairs = zip(one, other, strict=True)
    return [a.name for a, b in pairs if a.raw_data != b.raw_data]


def trained(name: str) -> onnx.ModelProto:
    """A network with the weights that train.py wrote."""
    model, names = RANDOM[name](), learned(RANDOM[name])
    constants = [one for one in model.graph.initializer if one.name in names]
    sizes = [int(np.prod(one.dims)) for one in constants]
    parts = np.split(np.load(WEIGHTS / f"{name}.npy"), np.cumsum(sizes)[:-1])
    for one, part in zip(constants, parts, strict=True):
        one.raw_data = part.astype(np.float32).tobytes()
    return model


RANDOM: dict[str, Callable[..., onnx.ModelProto]] = {"enhancer": enhancer, "vad": detector}
NETWORKS = RANDOM | {f"{name}-trained": partial(trained, name) for name in RANDOM}


def write(folder: Path, calls: int = 200) -> list[Path]:
    """NAME.onnx and NAME.npz of each network."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, make in NETWORKS.items():
        model = make()
        onnx.checker.check_model(model, full_check=True)
        found.append(folder / f"{name}.onnx")
        onnx.save(model, found[-1])
        np.savez(folder / f"{name}.npz", **calibration(model, frames_of(model, calls, 1)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    for path in write(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
