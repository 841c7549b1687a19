# SPDX-License-Identifier: Apache-2.0
"""Writes training steps of PyTorch networks as graphs for `vmcu place --graph`.

    python benchmarks/training/trace.py DIR [NETWORK...] [--batch 1]

Needs torch and torchvision, and nothing else of vmcu does: pip install torch torchvision. Nothing
is computed: the step runs on tensors without data. A step is forward, loss, backward and plain
gradient descent, in the order in which PyTorch runs it: all weights are updated behind all
gradients. Weights, inputs and running statistics are there all the time; a view takes no bytes and
keeps what it views alive.
"""

from __future__ import annotations

import argparse
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torchvision
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, functionalize, grad_and_value
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

WORDS, LENGTH = 30_000, 128


class Language(torch.nn.Module):
    """Words to words: an encoder, as BERT (arXiv:1810.04805) in its small form."""

    def __init__(self, width: int, layers: int, heads: int, words: int = WORDS):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.places = torch.nn.Embedding(LENGTH, width)
        layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, words)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.words(text) + self.places(torch.arange(LENGTH, device=text.device))
        return self.head(self.encoder(x)).flatten(0, 1)


class Translation(torch.nn.Module):
    """Words to words of another language, as the base model of arXiv:1706.03762."""

    def __init__(self, width: int = 512):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, width)
        self.both = torch.nn.Transformer(width, batch_first=True)
        self.head = torch.nn.Linear(width, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.words(text)
        return self.head(self.both(x, x)).flatten(0, 1)


def picture(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long)


def film(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(batch, 3, 16, 112, 112), torch.zeros(batch, dtype=torch.long)


def text(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    words = torch.zeros(batch, LENGTH, dtype=torch.long)
    return words, torch.zeros(batch * LENGTH, dtype=torch.long)


Sample = Callable[[int], tuple[torch.Tensor, torch.Tensor]]
models = torchvision.models
# Those of MODeL (arXiv:2210.12924, section 5.2), or one of each family.
NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], Sample]] = {
    "alexnet": (models.alexnet, picture),
    "vgg11": (models.vgg11, picture),
    "resnet18": (models.resnet18, picture),
    "resnet50": (models.resnet50, picture),
    "resnet3d-18": (models.video.r3d_18, film),
    "mobilenet-v2": (models.mobilenet_v2, picture),
    "mnasnet": (models.mnasnet1_0, picture),
    "efficientnet-b0": (models.efficientnet_b0, picture),
    "googlenet": (lambda: models.googlenet(aux_logits=False, init_weights=False), picture),
    "vit-b-16": (models.vit_b_16, picture),
    "transformer": (Translation, text),
    "bert": (lambda: Language(768, 12, 12), text),
    "xlm-r": (lambda: Language(768, 12, 12, 250_000), text),
}


def traced(network: str, batch: int) -> tuple[GraphModule, list[str], int]:
    """A step as nodes, what its inputs are, and how many of these are weights."""
    build, sample = NETWORKS[network]
    with FakeTensorMode(allow_non_fake_inputs=True):
        # What weights are drawn from does not matter, and cannot be asked of tensors without data.
        with patch.object(torch.nn.init, "trunc_normal_", lambda tensor, *_, **__: tensor):
            model = build().train()
        weights = dict(model.named_parameters())
        buffers = dict(model.named_buffers())
        x, y = sample(batch)

        def step(weights: Any, buffers: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            def loss(weights: Any, buffers: Any) -> torch.Tensor:
                out = functional_call(model, (weights, buffers), (x,))
                return torch.nn.functional.cross_entropy(out, y)

            gradients, value = grad_and_value(loss)(weights, buffers)
            return value, [gradients[name] for name in weights]

        module = make_fx(functionalize(step, remove="mutations"))(weights, buffers, x, y)
    return module, [*weights, *buffers, "input", "labels"], len(weights)


def is_view(node: Node) -> bool:
    """Whether a node's output is its first input in other words."""
    if node.target is torch.ops.aten.detach.default:
        return True
    schema = getattr(node.target, "_schema", None)
    results = schema.returns if schema else []
    return any(r.alias_info is not None and not r.alias_info.is_write for r in results)


class Writer:
    """A graph as the format has it. `tensor`: names by node; `root`: by name what it is a view
    of; `readers`: by root the nodes that read it."""

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.names: dict[Node, list[str | None]] = {}
        self.root: dict[str, str] = {}
        self.readers: dict[str, list[str]] = {}

    def tensor(self, name: str, value: torch.Tensor, view: str | None = None, keep: bool = False):
        """Adds one."""
        size = 0 if view else value.numel() * value.element_size()
        entry: dict[str, Any] = {"name": name, "size": size}
        if view:
            entry["shares"] = view
        if keep:
            entry["keep"] = True
        self.tensors.append(entry)
        self.root[name] = self.root[view] if view else name

    def node(self, name: str, inputs: list[str], outputs: list[str], after: list[str]) -> None:
        """Adds one."""
        inputs = list(dict.fromkeys(inputs))
        entry: dict[str, Any] = {"name": name, "inputs": inputs, "outputs": outputs}
        if after:
            entry["after"] = after
        self.nodes.append(entry)
        for tensor in inputs:
            self.readers.setdefault(self.root[tensor], []).append(name)

    def update(self, name: str, place: str, other: str) -> None:
        """A node that writes one tensor into another one's place, behind all that read that."""
        after = list(dict.fromkeys(self.readers.get(self.root[place], ())))
        self.node(name, [place, other], [], after)

    def call(self, node: Node) -> None:
        """A node of the step."""
        inputs = [self.names[n][0] for n in node.all_input_nodes if self.names[n]]
        read = [name for name in inputs if name is not None]
        if node.target is torch.ops.aten.copy_.default:
            self.update(node.name, read[0], read[-1])
            self.names[node] = [read[0]]
            return
        value = node.meta["val"]
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        many = len(values) > 1 or isinstance(value, (tuple, list))
        view = read[0] if is_view(node) and read else None
        outputs: list[str | None] = []
        for number, one in enumerate(values):
            if not isinstance(one, torch.Tensor):
                outputs.append(None)
                continue
            name = f"{node.name}.{number}" if many else node.name
            self.tensor(name, one, view)
            outputs.append(name)
        self.names[node] = outputs
        self.node(node.name, read, [name for name in outputs if name], [])


def graph_of(module: GraphModule, inputs: list[str], weights: int) -> dict[str, Any]:
    """A traced step in the format, its weights updated at its end."""
    writer = Writer()
    given = iter(inputs)
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            name = next(given) if node.op == "placeholder" else node.name
            value = node.meta.get("val")
            value = getattr(module, str(node.target)) if value is None else value
            writer.tensor(name, value, keep=True)
            writer.names[node] = [name]
        elif node.op == "call_function" and node.target is operator.getitem:
            writer.names[node] = [writer.names[node.args[0]][node.args[1]]]
        elif node.op == "call_function":
            writer.call(node)
    loss, *gradients = pytree.tree_leaves(module.graph.output_node().args)
    kept = writer.names[loss][0]
    next(t for t in writer.tensors if t["name"] == writer.root[str(kept)])["keep"] = True
    for weight, gradient in zip(inputs[:weights], gradients, strict=True):
        name = writer.names[gradient][0]
        writer.update(f"update {weight}", weight, str(name))
    return {"tensors": writer.tensors, "nodes": writer.nodes}


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
        graph = graph_of(*traced(name, args.batch))
        path = args.directory / f"{name}-{args.batch}.json"
        path.write_text(json.dumps(graph) + "\n", encoding="utf-8")
        print(f"{path}: {len(graph['nodes']):,} nodes, {len(graph['tensors']):,} tensors")


if __name__ == "__main__":
    main()
