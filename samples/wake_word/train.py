# SPDX-License-Identifier: Apache-2.0
"""Makes the network that hears the wake word of this sample.

Nobody speaks here: the wake word is a tone that rises and falls again. Tones that only rise, only
fall, fall and rise, or stay, noise and silence are none, nor is the first half of the word. Only the
last layer is trained, as a regression; the convolutions along time in front of it have random
weights with a fixed seed. Features are those of the front end that the device has.

Out comes `wake_word.onnx`, int8, which is committed: building the sample does not need this script.
It needs vmcu_tools, onnx and onnxruntime; another processor may round differently and end at
slightly different weights.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from vmcu_tools.audio.front_end import FEATURE_STEP, FrontEnd
from vmcu_tools.audio.settings import Settings

HERE = Path(__file__).parent
SEED = 5
# As CMakeLists.txt has it.
FRONT_END = Settings(hop_ms=20, channels=24)
RATE = FRONT_END.sample_rate
# Of a window of the network, and where its sound ends.
ROWS = 49
SECONDS = (ROWS - 1) * 0.02 + 0.03
# What vmcu_audio_bytes() makes of features: 256 / 666 of a step each.
BYTE_STEP = FEATURE_STEP * 666 / 256
SHAPES = {
    "wake": (0, 1, 0),
    "up": (0, 0.5, 1),
    "down": (1, 0.5, 0),
    "valley": (1, 0, 1),
    "hold": (0.5, 0.5, 0.5),
    "half": (0, 1),
}
OTHERS = (*SHAPES, "noise", "silence")
CHANNELS, FEATURES = 16, 24
# Of the second convolution.
SEEN = ROWS - 6
TRAINING, HELD_OUT = 2000, 300


def tone(shape: tuple[float, ...], length: float, rng: np.random.Generator) -> np.ndarray:
    """A tone whose pitch goes through `shape`, in octaves above a low one. float (samples)."""
    count = int(length * RATE)
    octaves = rng.uniform(1.2, 2.0) * np.interp(
        np.arange(count), np.linspace(0, count, len(shape)), shape
    )
    phase = 2 * np.pi * np.cumsum(rng.uniform(300, 500) * 2**octaves) / RATE
    rounded = np.sin(np.pi * np.linspace(0, 1, count)) ** 0.3
    return (np.sin(phase) + rng.uniform(0, 0.4) * np.sin(2 * phase)) * rounded


def window(word: str, rng: np.random.Generator) -> np.ndarray:
    """A window of sound, int16, with something before it that the front end gets used to. A word
    ends up to 200 ms before the window does; half a word ends where the window does."""
    count, before = int(SECONDS * RATE), RATE // 2
    sound = rng.normal(0, 10 ** rng.uniform(0, 1.8), before + count)
    length = rng.uniform(0.45, 0.6)
    if word in SHAPES:
        length /= 2 if word == "half" else 1
        made = tone(SHAPES[word], length, rng)
    elif word == "noise":
        made = rng.normal(0, 1, int(length * RATE))
    else:
        made = np.zeros(1)
    end = before + count - (0 if word == "half" else int(rng.uniform(0, 0.2) * RATE))
    sound[end - len(made) : end] += 10 ** rng.uniform(3.0, 4.3) * made
    return np.clip(np.rint(sound), -32768, 32767).astype(np.int16)


def bytes_of(features: np.ndarray) -> np.ndarray:
    """vmcu_audio_bytes() of uint16 features."""
    return np.minimum((features.astype(np.int64) * 256 + 333) // 666, 255) - 128


def windows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """float32 (N, 1, ROWS, channels) as the network takes them, and which are the wake word."""
    words = rng.choice(OTHERS, count, p=[0.3, *[0.7 / (len(OTHERS) - 1)] * (len(OTHERS) - 1)])
    rows = [bytes_of(FrontEnd(FRONT_END).process(window(w, rng)))[-ROWS:] for w in words]
    inputs = (np.stack(rows)[:, None] + 128) * BYTE_STEP
    return inputs.astype(np.float32), words == "wake"


def network(readout: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """Two convolutions along time, then a dense layer over all of it: `readout` float32
    (FEATURES * SEEN, 1)."""
    rng = np.random.default_rng(SEED)
    bands = FRONT_END.channels
    first = rng.normal(0, 0.1, (CHANNELS, 1, 3, bands))
    second = rng.normal(0, 0.2, (FEATURES, CHANNELS, 5, 1))
    constants = {
        "first": first - first.mean(axis=(2, 3), keepdims=True),
        "second": second - second.mean(axis=(1, 2), keepdims=True),
        "readout": readout,
        "bias": bias,
    }
    nodes = [
        helper.make_node("Conv", ["features", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["seen"]),
        helper.make_node("Gemm", ["seen", "readout", "bias"], ["score"]),
    ]
    graph = helper.make_graph(
        nodes,
        "wake_word",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, (1, 1, ROWS, bands))],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, (1, 1))],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def session(model: bytes | str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def scores(model: bytes | str, inputs: np.ndarray, output: str) -> np.ndarray:
    runtime = session(model)
    return np.concatenate([runtime.run([output], {"features": x[None]})[0] for x in inputs])


def train(inputs: np.ndarray, wanted: np.ndarray) -> onnx.ModelProto:
    """The readout that comes nearest, in the least squares sense, to 1 for the word and -1."""
    width = FEATURES * SEEN
    empty = network(np.zeros((width, 1)), np.zeros(1))
    empty.graph.output.append(
        helper.make_tensor_value_info("seen", TensorProto.FLOAT, (1, width))
    )
    seen = scores(empty.SerializeToString(), inputs, "seen").astype(np.float64)
    scale = seen.mean()
    design = np.hstack([seen / scale, np.ones((len(seen), 1))])
    ridge = 2e-1 * len(seen) * np.eye(design.shape[1])
    solution = np.linalg.solve(design.T @ design + ridge, design.T @ np.where(wanted, 1.0, -1.0))
    return network(solution[:-1, None] / scale, solution[-1:])


class Calibration(CalibrationDataReader):
    """Windows, one at a time; the first has the least and the greatest byte."""

    def __init__(self, inputs: np.ndarray):
        ends = inputs[:1].copy()
        ends[0, 0, 0, :2] = 0, 255 * BYTE_STEP
        self.feeds = iter([{"features": x[None]} for x in [*ends, *inputs]])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def quantise(model: onnx.ModelProto, calibration: np.ndarray, path: Path) -> None:
    """Writes the int8 model: QDQ, one weight scale per output channel."""
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "float.onnx"
        onnx.save(model, exact)
        quantize_static(
            exact,
            path,
            Calibration(calibration),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": False},
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    inputs, wanted = windows(TRAINING, np.random.default_rng(SEED + 1))
    tests, expected = windows(HELD_OUT, np.random.default_rng(SEED + 2))
    path = folder / "wake_word.onnx"
    quantise(train(inputs, wanted), inputs[:150], path)
    found = scores(str(path), tests, "score")[:, 0] > 0
    missed, false = (expected & ~found).sum(), (found & ~expected).sum()
    print(f"int8, {HELD_OUT} held-out windows: {missed} words missed, {false} heard that were none")
    print(f"wrote {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
