# SPDX-License-Identifier: Apache-2.0
"""Makes a network that knows the digits 0 to 8, and the examples from which a device learns 9.

No 9 is used here: two convolutions have random weights with a fixed seed, and scikit-learn trains
two dense layers behind them on the other digits. Out come `learn.onnx`, int8, and `src/examples.h`:
images with labels, some of 9 and a few of each other digit, in the order of training on the device.
Both are committed: building the sample does not need this script. It needs vmcu_tools, onnx,
onnxruntime and scikit-learn; another processor may round differently and end at slightly different
weights. The sample's test images are those of samples/digits, none of which is used here.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from vmcu_tools.frontends import load
from vmcu_tools.quantize.calibration import quantize

HERE = Path(__file__).parent
SEED = 5
# Of samples/digits/train.py: the same images are held out.
SPLIT_SEED, TEST_IMAGES = 2024, 360
NEW = 9
SHAPE = (1, 1, 8, 8)
CHANNELS, SECOND_CHANNELS, FEATURES = 24, 32, 16
# Examples for the device: of the new digit, and of each other one.
EXAMPLES, REMINDERS = 20, 4
CALIBRATION = 200


def images() -> tuple[np.ndarray, np.ndarray]:
    """Images float32 (N, 1, 8, 8) in 0..1 and their digits, without those that are held out."""
    digits = load_digits()
    known, _, labels, _ = train_test_split(
        (digits.images / 16.0).astype(np.float32)[:, None],
        digits.target,
        test_size=TEST_IMAGES,
        random_state=SPLIT_SEED,
        stratify=digits.target,
    )
    return known, labels


def filters() -> dict[str, np.ndarray]:
    """Weights of the convolutions, (to, from, 3, 3)."""
    rng = np.random.default_rng(SEED)
    first = rng.normal(0, 0.5, (CHANNELS, 1, 3, 3))
    second = rng.normal(0, 1.4 / np.sqrt(9 * CHANNELS), (SECOND_CHANNELS, CHANNELS, 3, 3))
    return {"first": first - first.mean(axis=(2, 3), keepdims=True) / 2, "second": second}


def network(constants: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The float network, as far as there are constants for it."""
    nodes = [
        helper.make_node("Conv", ["image", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["seen"]),
    ]
    if "readout" in constants:
        nodes += [
            helper.make_node("Gemm", ["seen", "hidden", "hidden_bias"], ["e"]),
            helper.make_node("Relu", ["e"], ["features"]),
            helper.make_node("Gemm", ["features", "readout", "readout_bias"], ["scores"]),
        ]
    graph = helper.make_graph(
        nodes,
        "learn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def answers(model: bytes | str, inputs: np.ndarray) -> np.ndarray:
    """The outputs of ONNX Runtime, (N, outputs)."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
    options.add_session_config_entry("session.x64quantprecision", "1")
    runtime = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.concatenate([runtime.run(None, {"image": one[None]})[0] for one in inputs])


def train(inputs: np.ndarray, labels: np.ndarray) -> onnx.ModelProto:
    """The network with dense layers that scikit-learn has trained."""
    constants = filters()
    seen = answers(network(constants).SerializeToString(), inputs)
    found = MLPClassifier(
        (FEATURES,), alpha=1e-2, max_iter=150, random_state=SEED, learning_rate_init=2e-3
    ).fit(seen, labels)
    layers = zip(("hidden", "readout"), found.coefs_, found.intercepts_, strict=True)
    for name, weights, bias in layers:
        constants |= {name: weights, f"{name}_bias": bias}
    return network(constants)


def examples(labels: np.ndarray) -> np.ndarray:
    """Numbers of the images that the device learns from, in its order."""
    counts = {**dict.fromkeys(range(NEW), REMINDERS), NEW: EXAMPLES}
    chosen = [np.flatnonzero(labels == digit)[:count] for digit, count in counts.items()]
    return np.random.default_rng(SEED).permutation(np.concatenate(chosen))


def quantised(path: Path, inputs: np.ndarray) -> np.ndarray:
    """Images int8 (N, 64) in the scale of the model's input."""
    graph = load(path)
    tensor = graph.tensors[graph.inputs[0].tensor]
    found = np.clip(np.rint(inputs / np.float32(tensor.scale)) + tensor.zero_point, -128, 127)
    return found.reshape(len(inputs), -1).astype(np.int8)


def write_examples(path: Path, inputs: np.ndarray, labels: np.ndarray) -> None:
    rows = "\n".join("\t{" + ",".join(map(str, row)) + "}," for row in inputs.tolist())
    numbers = ", ".join(map(str, labels))
    path.write_text(
        f"""/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by train.py: images of scikit-learn's digits (UCI Optical Recognition of Handwritten
 * Digits, CC BY 4.0), quantised with the scale of the model's input, in the order of training.
 */

#ifndef LEARN_EXAMPLES_H_
#define LEARN_EXAMPLES_H_

#include <stdint.h>

#define EXAMPLE_COUNT {len(inputs)}
#define EXAMPLE_BYTES {inputs.shape[1]}

/* The digit that the model was not trained on. */
#define NEW_DIGIT {NEW}

/* clang-format off */
static const int8_t examples[EXAMPLE_COUNT][EXAMPLE_BYTES] = {{
{rows}
}};

static const int8_t example_labels[EXAMPLE_COUNT] = {{{numbers}}};
/* clang-format on */

#endif /* LEARN_EXAMPLES_H_ */
"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    (folder / "src").mkdir(parents=True, exist_ok=True)
    inputs, labels = images()
    old = labels != NEW
    path = folder / "learn.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        exact = Path(scratch) / "float.onnx"
        onnx.save(train(inputs[old], labels[old]), exact)
        quantize(exact, path, [{"image": one[None]} for one in inputs[old][:CALIBRATION]])
    chosen = examples(labels)
    write_examples(folder / "src" / "examples.h", quantised(path, inputs[chosen]), labels[chosen])
    print(f"wrote {path} ({path.stat().st_size} bytes) and src/examples.h")


if __name__ == "__main__":
    main()
