# SPDX-License-Identifier: Apache-2.0
"""What train.py does, in PyTorch, which wants `onnx` and `onnxscript` installed to export:

python examples/tutorial/train_torch.py
"""

from __future__ import annotations

import numpy as np
import torch
from shapes import NAMES, pictures
from torch import nn

TRAINED, HELD_OUT, CALIBRATED = 2000, 500, 100
EPOCHS, BATCH, RATE, MOMENTUM = 12, 50, 0.05, 0.9


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, len(NAMES)),
    )


def main() -> None:
    torch.manual_seed(1)
    images, labels = (torch.from_numpy(array) for array in pictures(TRAINED, 1))
    model = network()
    descent = torch.optim.SGD(model.parameters(), RATE, MOMENTUM)
    for _ in range(EPOCHS):
        for pick in torch.randperm(TRAINED).split(BATCH):
            descent.zero_grad()
            nn.functional.cross_entropy(model(images[pick]), labels[pick]).backward()
            descent.step()
    model.eval()
    unseen, wanted = (torch.from_numpy(array) for array in pictures(HELD_OUT, 2))
    right = (model(unseen).argmax(dim=1) == wanted).double().mean().item()
    print(f"{right:.1%} of {HELD_OUT} pictures that it has not seen are right")
    names = {"input_names": ["image"], "output_names": ["scores"]}
    torch.onnx.export(model, (images[:1],), "net.onnx", **names)
    np.savez("calibration.npz", image=images[:CALIBRATED].numpy())
    np.save("picture.npy", unseen[:1].numpy())
    print(f"wrote net.onnx, calibration.npz and picture.npy, a {NAMES[wanted[0]]}")


if __name__ == "__main__":
    main()
