# SPDX-License-Identifier: Apache-2.0
"""Writes training steps of PyTorch networks as graphs for `vmcu place --graph`.

    python benchmarks/training/trace.py DIR [NETWORK...] [--batch 1]

Requires torch and torchvision: pip install torch torchvision. The step runs on tensors without data
and computes nothing. It is forward, loss, backward and plain gradient descent, in the order of
PyTorch: all weights are updated after all gradients. Weights, inputs and running statistics exist
all the time. The cost of a node is modelled nanoseconds: its floating-point operations at 100 each,
or its bytes at 10 each, whichever takes longer. That is a processor of two cores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torchvision
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from vmcu.torch.graph import step_graph
from vmcu.torch.trace import trace

# In a nanosecond.
OPERATIONS, BYTES = 100, 10
# Words of a sentence with its two marks, and positions that an encoder knows.
LENGTH, POSITIONS = 258, 514
# Steps of time of the translation's source and target.
SOURCE, TARGET = 10, 20

Values = tuple[torch.Tensor, ...]


class Encoder(torch.nn.Module):
    """Words to vectors of 768: RoBERTa's base model (arXiv:1907.11692), without a head."""

    def __init__(self, words: int, width: int = 768):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.places = torch.nn.Embedding(POSITIONS, width)
        layer = torch.nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.words(text) + self.places(torch.arange(LENGTH, device=text.device))
        return self.encoder(x)


class GoogLeNet(torch.nn.Module):
    """With the classes of its two auxiliary heads beside its own."""

    def __init__(self) -> None:
        super().__init__()
        self.model = torchvision.models.googlenet(aux_logits=True, init_weights=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(tuple(self.model(x)), -1)


def picture(batch: int) -> Values:
    return torch.empty(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long)


def film(batch: int) -> Values:
    return torch.empty(batch, 3, 1, 112, 112), torch.zeros(batch, dtype=torch.long)


def text(batch: int) -> Values:
    words = torch.zeros(batch, LENGTH, dtype=torch.long)
    return words, torch.zeros(batch, 768, dtype=torch.long)


def sequences(batch: int) -> Values:
    source, target = torch.empty(SOURCE, batch, 512), torch.empty(TARGET, batch, 512)
    return source, target, torch.zeros(TARGET, 512, dtype=torch.long)


models = torchvision.models
# Networks and inputs of MODeL (arXiv:2210.12924, section 5.2), as its authors' benchmarks have
# them: functions that make a network, and its inputs with their classes for a batch size.
NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[int], Values]]] = {
    "alexnet": (models.alexnet, picture),
    "vgg11": (models.vgg11, picture),
    "resnet18": (models.resnet18, picture),
    "resnet50": (models.resnet50, picture),
    "resnet3d-18": (models.video.r3d_18, film),
    "mobilenet-v2": (models.mobilenet_v2, picture),
    "mnasnet": (models.mnasnet0_5, picture),
    "efficientnet-b0": (models.efficientnet_b0, picture),
    "googlenet": (GoogLeNet, picture),
    "vit-b-16": (models.vit_b_16, picture),
    "transformer": (lambda: torch.nn.Transformer(512, 1, 1, 1), sequences),
    "bert": (lambda: Encoder(50_265), text),
    "xlm-r": (lambda: Encoder(250_002), text),
}


def loss(model: torch.nn.Module, *values: torch.Tensor) -> torch.Tensor:
    """The loss of all networks; the last value are the classes."""
    return torch.nn.functional.cross_entropy(model(*values[:-1]), values[-1])


def nanoseconds(node: torch.fx.Node) -> float:
    """What a call takes by the timing rule."""
    calls = map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    made = node.meta.get("val")
    tensors = [one for one in tree_leaves((calls, made)) if isinstance(one, torch.Tensor)]
    count = flop_registry.get(node.target.overloadpacket)
    operations = count(*calls[0], **calls[1], out_val=made) if count else 0
    moved = sum(one.numel() * one.element_size() for one in tensors)
    return max(operations / OPERATIONS, moved / BYTES)


def graph_of(network: str, batch: int) -> dict[str, Any]:
    """A training step in the graph format."""
    build, sample = NETWORKS[network]
    with FakeTensorMode(allow_non_fake_inputs=True):
        # What weights are drawn from does not matter, and cannot be asked of tensors without data.
        with patch.object(torch.nn.init, "trunc_normal_", lambda tensor, *_, **__: tensor):
            model = build().train()
        inputs = sample(batch)
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    step = trace(model, inputs, loss, descent)
    data = step_graph(step).data
    calls = {node.name: node for node in step.graph.nodes}
    for entry in data["nodes"]:
        entry["cost"] = round(nanoseconds(calls[entry["name"]]))
    return data


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("directory", type=Path)
    options.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    options.add_argument("--batch", type=int, default=1)
    args = options.parse_args()
    unknown = [name for name in args.networks if name not in NETWORKS]
    if unknown:
        options.error(f"no such network: {', '.join(unknown)}")
    args.directory.mkdir(parents=True, exist_ok=True)
    for name in args.networks or NETWORKS:
        graph = graph_of(name, args.batch)
        path = args.directory / f"{name}-{args.batch}.json"
        path.write_text(json.dumps(graph) + "\n", encoding="utf-8")
        print(f"{path}: {len(graph['nodes']):,} nodes, {len(graph['tensors']):,} tensors")


if __name__ == "__main__":
    main()
