# SPDX-License-Identifier: Apache-2.0
"""Trains the digits network, quantises it to int8 and writes what the sample needs.

Out come `digits.onnx`, the int8 model that vmcu compiles, and `src/test_images.h`, the held-out
images with their labels and ONNX Runtime's answers. Both are committed, so that building the
sample needs neither PyTorch nor this script. Run it again with

    pip install -r requirements.txt && python train.py

The split, the initial weights and the order of training are fixed and everything runs on one
thread, so a second run on the same machine gives the same bytes. Another processor or another
version of PyTorch may round differently and end at slightly different weights.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = Path(__file__).parent
SEED = 2024
TEST_IMAGES = 360
EPOCHS = 60


class InvertedBottleneck(nn.Module):
    """Expand, filter each channel, project back, add: the block of MobileNetV2."""

    def __init__(self, channels: int, hidden: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        InvertedBottleneck(16, 64),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (N, 1, 8, 8) in 0..1 and labels: for training, and held out."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images,
        digits.target,
        test_size=TEST_IMAGES,
        random_state=SEED,
        stratify=digits.target,
    )
    return train_x, train_y, test_x, test_y


def shifted(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image moved by up to one pixel; 1437 images are few."""
    padded = nn.functional.pad(batch, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(batch), 2), generator=generator).tolist()
    return torch.stack(
        [image[:, y : y + 8, x : x + 8] for image, (y, x) in zip(padded, moves, strict=True)]
    )


def train(model: nn.Module, x: np.ndarray, y: np.ndarray) -> None:
    images, labels = torch.from_numpy(x), torch.from_numpy(y)
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
    batches = -(-len(images) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=EPOCHS * batches
    )
    model.train()
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(images), generator=generator).split(64):
            loss = nn.functional.cross_entropy(
                model(shifted(images[chosen], generator)), labels[chosen], label_smoothing=0.05
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


class Calibration(CalibrationDataReader):
    """Training images, one at a time."""

    def __init__(self, images: np.ndarray):
        self.feeds = iter([{"image": image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def export(model: nn.Module, calibration: np.ndarray, path: Path) -> None:
    """Writes the int8 model: QDQ, one weight scale per output channel."""
    with tempfile.TemporaryDirectory() as folder:
        float_path = Path(folder) / "float.onnx"
        torch.onnx.export(
            model,
            (torch.zeros(1, 1, 8, 8),),
            float_path,
            input_names=["image"],
            output_names=["scores"],
            opset_version=17,
            dynamo=False,
        )
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(float_path, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            path,
            Calibration(calibration),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": False},
        )


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def input_quantisation(path: Path) -> tuple[float, int]:
    """Scale and zero point of the model's first QuantizeLinear."""
    graph = onnx.load(path).graph
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}
    node = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "image")
    return float(constants[node.input[1]]), int(constants[node.input[2]])


def c_rows(values: np.ndarray) -> str:
    """One line of C for each image."""
    return "\n".join("\t{" + ",".join(map(str, row)) + "}," for row in values.tolist())


def c_list(values: np.ndarray) -> str:
    """Thirty small numbers a line."""
    lines = (", ".join(map(str, values[i : i + 30])) for i in range(0, len(values), 30))
    return "\n".join(f"\t{line}," for line in lines)


def write_images(path: Path, images: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> None:
    path.write_text(
        f"""/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by train.py: the {len(images)} held-out images of scikit-learn's digits (UCI Optical
 * Recognition of Handwritten Digits, CC BY 4.0), quantised with the scale of the model's input.
 */

#ifndef DIGITS_TEST_IMAGES_H_
#define DIGITS_TEST_IMAGES_H_

#include <stdint.h>

#define TEST_IMAGE_COUNT {len(images)}
#define TEST_IMAGE_BYTES {images[0].size}

/* clang-format off */
static const int8_t test_images[TEST_IMAGE_COUNT][TEST_IMAGE_BYTES] = {{
{c_rows(images.reshape(len(images), -1))}
}};

/* What the images show. */
static const uint8_t test_labels[TEST_IMAGE_COUNT] = {{
{c_list(labels)}
}};

/* What ONNX Runtime answers for the same model. */
static const uint8_t onnxruntime_answers[TEST_IMAGE_COUNT] = {{
{c_list(answers)}
}};
/* clang-format on */

#endif /* DIGITS_TEST_IMAGES_H_ */
"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    (folder / "src").mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_x, train_y, test_x, test_y = load()
    model = network()
    train(model, train_x, train_y)
    with torch.no_grad():
        exact = model(torch.from_numpy(test_x)).argmax(1).numpy()

    path = folder / "digits.onnx"
    export(model, train_x, path)
    runtime = session(path)
    answers = np.array([runtime.run(None, {"image": x[None]})[0].argmax() for x in test_x])

    scale, zero_point = input_quantisation(path)
    quantised = np.clip(np.rint(test_x / np.float32(scale)) + zero_point, -128, 127)
    write_images(folder / "src" / "test_images.h", quantised.astype(np.int8), test_y, answers)

    weights = sum(p.numel() for name, p in model.named_parameters() if p.dim() > 1)
    print(f"{weights} weights, {len(test_y)} held-out images")
    print(f"float: {(exact == test_y).sum()} correct; int8: {(answers == test_y).sum()} correct")
    print(f"wrote {path} ({path.stat().st_size} bytes) and src/test_images.h")


if __name__ == "__main__":
    main()
