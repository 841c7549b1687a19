# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT in PyTorch on the stories of samples/storyteller, in about two minutes, and writes
one step of it, step.onnx, and calibration.npz into the folder `story`:

python examples/nanogpt/train_gpt.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from gpt import GPT, Shape, Step
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[2] / "samples" / "storyteller"))
from stories import stream, vocabulary
from train import samples

SEED, BATCH, RATE = 7, 16, 3e-3


def batch(stories: list[np.ndarray], count: int, rng: np.random.Generator) -> torch.Tensor:
    """Texts of `count` words, (BATCH, count): each begins with a story, and another follows."""
    texts = []
    for _ in range(BATCH):
        first, second = rng.integers(len(stories), size=2)
        texts.append(np.concatenate([stories[first], stories[second]])[:count])
    return torch.from_numpy(np.stack(texts))


def trained(shape: Shape, steps: int) -> GPT:
    rng = np.random.default_rng(SEED)
    stories = stream(4000, rng)
    torch.manual_seed(SEED)
    gpt = GPT(shape)
    descent = torch.optim.AdamW(gpt.parameters(), RATE)
    rates = torch.optim.lr_scheduler.OneCycleLR(descent, RATE, total_steps=steps)
    for step in range(1, steps + 1):
        words = batch(stories, shape.block + 1, rng)
        logits = gpt(words[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        descent.zero_grad()
        loss.backward()
        descent.step()
        rates.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return gpt.eval()


def export(gpt: GPT, path: Path) -> None:
    """One step; vmcu keeps past_... and present_... in the pool, by their names."""
    shape = gpt.shape
    caches = [f"{layer}.{what}" for layer in range(shape.layers) for what in ("key", "value")]
    empty = (1, shape.heads, shape.block - 1, shape.width // shape.heads)
    # A tensor of its own for each: the exporter makes one input of the same tensor given twice.
    numbers = [torch.zeros(1, 1, dtype=torch.int64) for _ in range(2)]
    torch.onnx.export(
        Step(gpt),
        (*numbers, *(torch.zeros(empty) for _ in caches)),
        str(path),
        input_names=["input_ids", "position_ids", *(f"past_key_values.{one}" for one in caches)],
        output_names=["logits", *(f"present.{one}" for one in caches)],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("story"), help="folder")
    parser.add_argument("--steps", type=int, default=2000, help="training steps")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    # Layers of this size are fastest on one thread.
    torch.set_num_threads(1)
    gpt = trained(Shape(len(vocabulary())), given.steps)
    path = given.output / "step.onnx"
    export(gpt, path)
    calls = samples(path, stream(12, np.random.default_rng(SEED + 1)))
    arrays = {name: np.concatenate([call[name] for call in calls]) for name in calls[0]}
    np.savez(given.output / "calibration.npz", **arrays)
    print(f"wrote {path} and {given.output / 'calibration.npz'}: {len(calls)} samples")


if __name__ == "__main__":
    main()
