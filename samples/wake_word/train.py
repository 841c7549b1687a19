# SPDX-License-Identifier: Apache-2.0
"""Makes the network that hears the wake word of this sample.

Nobody speaks here: the wake word is a tone that rises and falls again. Tones that only rise, only
fall, fall and rise, or stay, and noise are none, nor is the first half of the word. Only the last
layer is trained, as a logistic regression; the convolutions along time in front of it have random
weights with a fixed seed. Features are those of the front end that the device has.

Out comes `wake_word.onnx`, int8, which is committed: building the sample does not need this script.
It needs vmcu_tools, onnx, onnxruntime and scikit-learn; another processor may round differently and
end at slightly different weights.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LogisticRegression
from vmcu_tools.audio.front_end import FEATURE_STEP, FrontEnd
from vmcu_tools.audio.settings import Settings
from vmcu_tools.quantize.calibration import quantize

HERE = Path(__file__).parent
SEED = 5
# As CMakeLists.txt has it.
FRONT_END = Settings(hop_ms=20, channels=24)
RATE = FRONT_END.sample_rate
# Of a window of the network, of which every STEP-th is trained on, and seconds of a stream.
ROWS, STEP, STREAM = 49, 3, 30
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
OTHERS = (*SHAPES, "noise")
CHANCES = (0.3, *[0.7 / (len(OTHERS) - 1)] * (len(OTHERS) - 1))
CHANNELS, FEATURES = 16, 24
# Of the second convolution.
SEEN = ROWS - 6
TRAINING, HELD_OUT = 120, 15
PENALTY = 0.003


def tone(shape: tuple[float, ...], length: float, rng: np.random.Generator) -> np.ndarray:
    """A tone whose pitch goes through `shape`, in octaves above a low one. float (samples)."""
    count = int(length * RATE)
    octaves = rng.uniform(1.2, 2.0) * np.interp(
        np.arange(count), np.linspace(0, count, len(shape)), shape
    )
    phase = 2 * np.pi * np.cumsum(rng.uniform(300, 500) * 2**octaves) / RATE
    rounded = np.sin(np.pi * np.linspace(0, 1, count)) ** 0.3
    return (np.sin(phase) + rng.uniform(0, 0.4) * np.sin(2 * phase)) * rounded


def stream(rng: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """STREAM seconds of words with pauses, int16, and when wake words ended."""
    count = STREAM * RATE
    sound = rng.normal(0, 10 ** rng.uniform(0, 1.8), count)
    at, ends = int(rng.uniform(0.2, 1.5) * RATE), []
    while True:
        word, length = rng.choice(OTHERS, p=CHANCES), rng.uniform(0.45, 0.6)
        if word in SHAPES:
            made = tone(SHAPES[word], length / (2 if word == "half" else 1), rng)
        else:
            made = rng.normal(0, 1, int(length * RATE))
        if at + len(made) > count:
            return np.clip(np.rint(sound), -32768, 32767).astype(np.int16), ends
        sound[at : at + len(made)] += 10 ** rng.uniform(3.0, 4.3) * made
        at += len(made)
        if word == "wake":
            ends.append(at / RATE)
        at += int(rng.uniform(0.3, 1.5) * RATE)


def bytes_of(features: np.ndarray) -> np.ndarray:
    """vmcu_audio_bytes() of uint16 features."""
    return np.minimum((features.astype(np.int64) * 256 + 333) // 666, 255) - 128


def windows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of `count` streams, float32 (N, 1, ROWS, channels) as the network takes them, and 1 where a
    word has just ended, -1 where none has; what lies between is left out."""
    inputs, wanted = [], []
    for _ in range(count):
        sound, ends = stream(rng)
        rows = bytes_of(FrontEnd(FRONT_END).process(sound))
        for last in range(ROWS, len(rows) + 1, STEP):
            now = (last - 1) * FRONT_END.hop / RATE + FRONT_END.window / RATE
            late = min((abs(now - end - 0.1) for end in ends), default=1.0)
            if late < 0.1 or late > 0.2:
                inputs.append(rows[None, last - ROWS : last])
                wanted.append(1 if late < 0.1 else -1)
    return ((np.stack(inputs) + 128) * BYTE_STEP).astype(np.float32), np.array(wanted)


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
    """The readout of a logistic regression, whose score is 0 where both are as likely."""
    width = FEATURES * SEEN
    empty = network(np.zeros((width, 1)), np.zeros(1))
    empty.graph.output.append(helper.make_tensor_value_info("seen", TensorProto.FLOAT, (1, width)))
    seen = scores(empty.SerializeToString(), inputs, "seen").astype(np.float64)
    scale = seen.std()
    found = LogisticRegression(C=PENALTY, class_weight={-1: 1, 1: 4}, max_iter=300).fit(
        seen / scale, wanted
    )
    return network(found.coef_.T / scale, found.intercept_)


def quantised(model: onnx.ModelProto, inputs: np.ndarray, path: Path) -> None:
    """Writes the int8 model. The first window that it is calibrated with has the least and the
    greatest byte."""
    ends = inputs[:1].copy()
    ends[0, 0, 0, :2] = 0, 255 * BYTE_STEP
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "float.onnx"
        onnx.save(model, exact)
        quantize(exact, path, [{"features": x[None]} for x in (*ends, *inputs)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    inputs, wanted = windows(TRAINING, np.random.default_rng(SEED + 1))
    tests, expected = windows(HELD_OUT, np.random.default_rng(SEED + 2))
    path = folder / "wake_word.onnx"
    quantised(train(inputs, wanted), inputs[:: len(inputs) // 150], path)
    found = scores(str(path), tests, "score")[:, 0] > 0
    missed, false = (~found[expected > 0]).sum(), found[expected < 0].sum()
    print(
        f"int8, {len(tests)} windows of other streams: {missed} of {(expected > 0).sum()} words "
        f"missed, {false} heard where there was none"
    )
    print(f"wrote {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
