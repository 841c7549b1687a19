# SPDX-License-Identifier: Apache-2.0
"""Writes benchmark networks as int8 .onnx: `python benchmarks/models/build.py NAME... -o DIR`.

Weights and calibration data are seeded, so the files are the same on every machine that runs the
same onnxruntime. What such a network computes is meaningless; its shapes, and so its RAM and its
arithmetic, are those of the real one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import sequences
import vision
from vmcu_tools.quantize.calibration import Samples, quantize

CALIBRATION_SAMPLES = 8

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenetv1-0.25-96": lambda: vision.mobilenet_v1(0.25, 96),
    "mobilenetv2-0.35-96": lambda: vision.mobilenet_v2(0.35, 96),
    "mobilenetv2-0.35-144": lambda: vision.mobilenet_v2(0.35, 144),
    "mobilenetv2-0.35-144-cut": lambda: vision.mobilenet_v2_cut(0.35, 144),
    "resnet8": lambda: vision.resnet(1),
    "resnet20": lambda: vision.resnet(3),
    "mcunet-80": vision.mcunet,
    "unet-48": vision.unet,
    "ds-cnn": sequences.ds_cnn,
    "heartbeat": sequences.heartbeat,
    "transformer": sequences.transformer,
}


def samples(model: onnx.ModelProto, count: int, seed: int) -> Samples:
    """Inputs of unit variance: half of it noise, half of it constant over a channel."""
    rng = np.random.default_rng(seed)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    level = (1, shape[1], *[1] * (len(shape) - 2))
    return [
        {"input": ((rng.normal(size=shape) + rng.normal(size=level)) / 2**0.5).astype(np.float32)}
        for _ in range(count)
    ]


def write(name: str, folder: Path) -> Path:
    """The int8 file of a network in MODELS."""
    model = MODELS[name]()
    target = folder / f"{name}.onnx"
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "float.onnx"
        onnx.save(model, source)
        quantize(source, target, samples(model, CALIBRATION_SAMPLES, 1))
    return target


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}")
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)}")
    args.output.mkdir(parents=True, exist_ok=True)
    for name in args.names or MODELS:
        print(write(name, args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
