# SPDX-License-Identifier: Apache-2.0
"""Trains the networks of make.py on sounds of sound.py and writes their weights beside this file.

    python -m venv build/torch && build/torch/bin/pip install torch onnx onnxruntime
    build/torch/bin/python benchmarks/speech/train.py [NETWORK...]

The loss of the enhancer is the noise in its samples, in dB, and that of the detector is the cross
entropy of its calls. NETWORK.npy has the constants that make.learned() names, one behind the other,
as float16. The same PyTorch on the same processor writes the same bytes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from calls import as_frames, first_shape, state_output
from make import RANDOM, WEIGHTS, learned
from sound import Sound, has_voice, sound, window
from torch import Tensor
from unrolled import Unrolled

SEEDS = range(1000, 1400)  # of sounds; others are for calibration and scores
SOUND_SAMPLES = 38_400
LARGEST_GRADIENT = 1.0
REPORT_STEPS = 50


@dataclass(frozen=True)
class Task:
    """wanted: of a sound, (calls, ...); loss: of outputs (calls, batch, ...) and what is wanted.

    Training has so many `steps`, each of `batch` sequences of `calls`; rate: Adam's first one."""

    wanted: Callable[[Sound, Sequence[int]], np.ndarray]
    loss: Callable[[Tensor, Tensor], Tensor]
    steps: int = 1000
    calls: int = 50
    batch: int = 16
    rate: float = 5e-3


def samples_of(spectra: Tensor) -> Tensor:
    """Overlapping halves of spectra (calls, batch, 1, bins, 1, 2): (batch, samples)."""
    parts = torch.view_as_complex(spectra[:, :, 0, :, 0].contiguous())
    size = 2 * (parts.shape[2] - 1)
    frames = torch.fft.irfft(parts) * torch.tensor(window(size), dtype=torch.float32)
    made = frames[1:, ..., : size // 2] + frames[:-1, ..., size // 2 :]
    return made.transpose(0, 1).flatten(1)


def noise_over_signal(found: Tensor, clean: Tensor) -> Tensor:
    """dB, of spectra; with floors, or sequences of silence would outweigh all others."""
    wanted = samples_of(clean)
    noise = (samples_of(found) - wanted).square().mean(1)
    return 10 * torch.log10((noise + 1e-6) / (wanted.square().mean(1) + 1e-4)).mean()


def surprise(found: Tensor, voiced: Tensor) -> Tensor:
    """Cross entropy of probabilities (calls, batch, 1, 1)."""
    likely = found[:, :, 0, 0].clamp(1e-4, 1 - 1e-4)
    loss: Tensor = torch.nn.functional.binary_cross_entropy(likely, voiced)
    return loss


TASKS = {
    "enhancer": Task(lambda one, shape: as_frames(one.clean, shape), noise_over_signal),
    "vad": Task(lambda one, shape: has_voice(one.clean, shape[1]), surprise, steps=1500, calls=60),
}


def sequences(shape: Sequence[int], task: Task) -> tuple[Tensor, Tensor]:
    """(sequences, calls, ...), overlapping by half: what the calls read and what is wanted."""
    given, wanted = [], []
    for seed in SEEDS:
        one = sound(SOUND_SAMPLES, seed)
        frames, answers = as_frames(one.mixed, shape), task.wanted(one, shape)
        for start in range(0, len(frames) - task.calls + 1, task.calls // 2):
            given.append(frames[start : start + task.calls])
            wanted.append(answers[start : start + task.calls])
    return torch.tensor(np.stack(given)), torch.tensor(np.stack(wanted), dtype=torch.float32)


def train(name: str, task: Task) -> np.ndarray:
    """The trained constants, float16, one behind the other."""
    torch.set_num_threads(1)
    model = RANDOM[name]()
    states = {one.name: state_output(one.name) for one in model.graph.input[1:]}
    net = Unrolled(model, states, learned(RANDOM[name]))
    given, wanted = sequences(first_shape(model), task)
    adam = torch.optim.Adam(net.parameters(), task.rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, task.steps)
    rng, begun, losses = np.random.default_rng(0), time.process_time(), []
    for step in range(1, task.steps + 1):
        chosen = rng.choice(len(given), task.batch, replace=False)
        found = net(given[chosen].transpose(0, 1))
        loss = task.loss(found, wanted[chosen].transpose(0, 1))
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), LARGEST_GRADIENT)
        adam.step()
        falling.step()
        losses.append(loss.item())
        if step % REPORT_STEPS == 0:
            mean, seconds = np.mean(losses[-REPORT_STEPS:]), time.process_time() - begun
            print(f"{name}: step {step}, loss {mean:.3f}, {seconds:.0f} s", flush=True)
    found = [one.detach().numpy().ravel() for one in net.learned]
    return np.concatenate(found).astype(np.float16)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(TASKS))
    for name in parser.parse_args().networks or TASKS:
        np.save(WEIGHTS / f"{name}.npy", train(name, TASKS[name]))


if __name__ == "__main__":
    main()
