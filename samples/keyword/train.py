# SPDX-License-Identifier: Apache-2.0
"""Makes a network that tells sounds apart, and the sounds that the sample listens to.

Nobody speaks here: the "words" are synthetic, a tone that rises, one that falls, one that stays and
noise. Only the last layer is trained, by least squares; the convolutions in front of it have random
weights with a fixed seed, which is enough for such words. The point is the way of audio features
through a network, row by row.

Out come `keyword.onnx`, int8, and `src/clips.h`, the features of sounds that were not trained on,
with ONNX Runtime's answers. Both are committed: building the sample does not need this script. It
needs numpy, onnx and onnxruntime; another processor may round differently and end at slightly
different weights.
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

HERE = Path(__file__).parent
WORDS = ("up", "down", "hold", "noise")
SEED = 7
RATE = 8000
HOP, WINDOW = RATE // 50, RATE // 25
FRAMES, BANDS = 49, 10
TRAINING, HELD_OUT = 200, 3  # clips of each word
CHANNELS, FEATURES = 16, 32


def sound(word: str, rng: np.random.Generator) -> np.ndarray:
    """One second of sound, float, (RATE,): a word somewhere within faint noise."""
    time = np.arange(RATE) / RATE
    length, start = rng.uniform(0.4, 0.7), rng.uniform(0.05, 0.25)
    inside = np.clip((time - start) / length, 0, 1)
    low, octaves = rng.uniform(250, 500), rng.uniform(1.5, 2.5)
    slope = {"up": inside, "down": 1 - inside, "hold": np.full_like(time, rng.uniform(0, 1))}
    if word in slope:
        wave = np.sin(2 * np.pi * np.cumsum(low * 2 ** (octaves * slope[word])) / RATE)
    else:
        wave = rng.normal(0, 0.7, RATE)
    envelope = np.sin(np.pi * inside) ** 0.5
    return rng.uniform(0.2, 1) * wave * envelope + rng.normal(0, 0.01, RATE)


def features(wave: np.ndarray) -> np.ndarray:
    """What a microphone's driver would deliver: for every 20 ms a row of log energies in BANDS
    bands, each a third wider than the one below. float32 (FRAMES, BANDS), 0 to 1."""
    edges = np.geomspace(200, RATE / 2, BANDS + 1)
    bands = np.digitize(np.fft.rfftfreq(WINDOW, 1 / RATE), edges) - 1
    rows = []
    for frame in range(FRAMES):
        piece = wave[frame * HOP : frame * HOP + WINDOW]
        power = np.abs(np.fft.rfft(piece * np.hanning(len(piece)), WINDOW)) ** 2
        rows.append([power[bands == band].sum() for band in range(BANDS)])
    return np.clip((np.log10(np.array(rows) + 1e-3) + 3) / 7, 0, 1).astype(np.float32)


def clips(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """`count` clips of each word, float32 (N, 1, FRAMES, BANDS), and which word each is."""
    labels = np.tile(np.arange(len(WORDS)), count)
    return np.stack([features(sound(WORDS[word], rng))[None] for word in labels]), labels


def network(readout: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """Two convolutions with random weights, their mean over time and bands, then a dense layer:
    `readout` float32 (FEATURES, words)."""
    rng = np.random.default_rng(SEED)
    first = rng.normal(0, 1, (CHANNELS, 1, 5, 4)).astype(np.float32)
    second = rng.normal(0, 0.3, (FEATURES, CHANNELS, 3, 3)).astype(np.float32)
    constants = {
        "first": first - first.mean(axis=(2, 3), keepdims=True),
        "second": second,
        "readout": readout.astype(np.float32),
        "bias": bias.astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["features", "first"], ["a"], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"], strides=[2, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["mean"]),
        helper.make_node("Gemm", ["mean", "readout", "bias"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "keyword",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, (1, 1, FRAMES, BANDS))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, len(WORDS)))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def session(model: bytes | str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def means(inputs: np.ndarray) -> np.ndarray:
    """What the dense layer sees, float32 (N, FEATURES)."""
    model = network(np.zeros((FEATURES, len(WORDS))), np.zeros(len(WORDS)))
    model.graph.output.append(
        helper.make_tensor_value_info("mean", TensorProto.FLOAT, (1, FEATURES))
    )
    runtime = session(model.SerializeToString())
    return np.concatenate([runtime.run(["mean"], {"features": clip[None]})[0] for clip in inputs])


def train(inputs: np.ndarray, labels: np.ndarray) -> onnx.ModelProto:
    """The readout that comes nearest, in the least squares sense, to 1 for the word and 0."""
    seen = means(inputs).astype(np.float64)
    scale = seen.mean()
    design = np.hstack([seen / scale, np.ones((len(seen), 1))])
    targets = np.eye(len(WORDS))[labels]
    ridge = 1e-3 * len(seen) * np.eye(design.shape[1])
    solution = np.linalg.solve(design.T @ design + ridge, design.T @ targets)
    return network(solution[:-1] / scale, solution[-1])


class Calibration(CalibrationDataReader):
    """Training clips, one at a time."""

    def __init__(self, inputs: np.ndarray):
        self.feeds = iter([{"features": clip[None]} for clip in inputs])

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


def input_quantisation(path: Path) -> tuple[np.float32, int]:
    """Scale and zero point of the model's input."""
    graph = onnx.load(path).graph
    constants = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    node = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "features")
    return np.float32(constants[node.input[1]]), int(constants[node.input[2]])


def c_clip(clip: np.ndarray) -> str:
    rows = ("\t\t{" + ", ".join(map(str, row)) + "}," for row in clip.tolist())
    return "\t{\n" + "\n".join(rows) + "\n\t},"


def write_clips(path: Path, inputs: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> None:
    """`inputs` int8 (N, FRAMES, BANDS)."""
    newline = "\n"
    path.write_text(
        f"""/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by train.py: features of synthetic sounds, quantised with the scale of the model's input.
 */

#ifndef KEYWORD_CLIPS_H_
#define KEYWORD_CLIPS_H_

#include <stdint.h>

#define CLIPS  {len(inputs)}
#define FRAMES {FRAMES}
#define BANDS  {BANDS}

static const char *const words[] = {{{", ".join(f'"{word}"' for word in WORDS)}}};

/* clang-format off */
static const int8_t clips[CLIPS][FRAMES][BANDS] = {{
{newline.join(map(c_clip, inputs))}
}};

/* What was played. */
static const uint8_t played[CLIPS] = {{{", ".join(map(str, labels))}}};

/* What ONNX Runtime answers for the same model. */
static const uint8_t onnxruntime_answers[CLIPS] = {{{", ".join(map(str, answers))}}};
/* clang-format on */

#endif /* KEYWORD_CLIPS_H_ */
"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    (folder / "src").mkdir(parents=True, exist_ok=True)

    train_x, train_y = clips(TRAINING, np.random.default_rng(SEED + 1))
    test_x, test_y = clips(100, np.random.default_rng(SEED + 2))
    path = folder / "keyword.onnx"
    quantise(train(train_x, train_y), train_x[:100], path)

    runtime = session(str(path))
    answers = np.array([runtime.run(None, {"features": x[None]})[0].argmax() for x in test_x])
    print(f"int8: {(answers == test_y).sum()} of {len(test_y)} held-out clips correct")
    scale, zero_point = input_quantisation(path)
    kept = slice(0, HELD_OUT * len(WORDS))
    whole = np.clip(np.rint(test_x[kept, 0] / scale) + zero_point, -128, 127).astype(np.int8)
    write_clips(folder / "src" / "clips.h", whole, test_y[kept], answers[kept])
    print(f"wrote {path} ({path.stat().st_size} bytes) and src/clips.h")


if __name__ == "__main__":
    main()
