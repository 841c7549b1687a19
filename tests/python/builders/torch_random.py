# SPDX-License-Identifier: Apache-2.0
"""Random training steps of PyTorch: layers and the habits of scripts."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from .torch_losses import C, N, losses, optimizers

WIDTH, SIDE, LENGTH, WORDS = 8, 6, 4, 11
Tensor = torch.Tensor
ACTIVATIONS = (
    *(nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.SELU, nn.Softplus, nn.Mish),
    *(nn.Hardswish, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.Softsign, nn.LogSigmoid, nn.Hardtanh),
    *(lambda: nn.ReLU(inplace=True), lambda: nn.Dropout(0.3), lambda: nn.Dropout(0.2, True)),
    *(lambda: nn.AlphaDropout(0.2), lambda: nn.Threshold(0.1, 0.0), nn.CELU, nn.Tanhshrink),
)

# What scripts do around a step, and how often.
HABITS = {
    **{"": 8, "teacher": 2, "average": 2, "schedule": 2, "cycle": 2, "clip": 3, "autocast": 2},
    **{"penalty": 1, "hook": 0.5, "unfreeze": 0.5, "reduce dropout": 0.5, "compile": 0.5},
    "stored": 0.5,
}


@dataclass
class World:
    """A training step with everything around it. `after`: what a script does after each step;
    `has_started`: a step precedes the plan; `is_changed`: it changes the model later."""

    model: nn.Module
    loss: Callable[..., Tensor]
    inputs: Callable[[], tuple[Tensor, ...]]
    optimizer: Any
    name: str
    generator: torch.Generator
    clip_norm: float | None = None
    is_changed: bool = False
    has_started: bool = False
    after: list[Callable[[], object]] = field(default_factory=list)


class Residual(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Checkpointed(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.body, x, use_reentrant=False)


class Statistics(nn.Module):
    """Assigns one buffer and updates another in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean()
            self.count += 1
        return x - self.mean


class Remembering(nn.Module):
    """Keeps a tensor of the step before in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        y = x + 0.1 * self.last
        self.last = x.detach().mean()
        return y


class Counting(nn.Module):
    """Warms up: its behaviour depends on a Python number."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return x * min(1.0, 0.1 * self.steps)


class Lucky(nn.Module):
    """Stochastic depth with Python's generator."""

    def forward(self, x: Tensor) -> Tensor:
        return x if random.random() < 0.9 else 2 * x


class Scaled(nn.Module):
    """Has a tensor that is no buffer, and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.rand(())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + torch.tensor([0.5])


class Masked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x[x > 0].mean()


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.body = kind(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)[0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x, x, x, need_weights=False)[0]


def activation(draw: random.Random) -> nn.Module:
    return draw.choice(ACTIVATIONS)()


def odd(draw: random.Random) -> nn.Module:
    """A layer that keeps the shape and breaks a rule, or could."""
    kinds = (Statistics, Statistics, Scaled, Scaled, Remembering, Counting, Lucky, Masked)
    return draw.choice(kinds)()


def dense(draw: random.Random, width: int) -> nn.Module:
    """A layer on the last dimension that keeps it."""
    linear = nn.Linear(width, width, bias=draw.random() < 0.8)
    kind = draw.randrange(10)
    if kind == 0:
        return nn.LayerNorm(width)
    if kind == 1:
        return nn.RMSNorm(width)
    if kind == 2:
        return Residual(nn.Sequential(linear, activation(draw)))
    if kind == 3:
        return Checkpointed(nn.Sequential(linear, activation(draw)))
    if kind == 4:
        return nn.utils.parametrizations.weight_norm(linear)
    if kind == 5:
        return nn.utils.parametrizations.spectral_norm(linear)
    return nn.Sequential(linear, activation(draw))


def vectors(draw: random.Random) -> tuple[list[nn.Module], Any]:
    layers = [dense(draw, WIDTH) for _ in range(draw.randint(1, 4))]
    if draw.random() < 0.3:
        layers.insert(1, nn.BatchNorm1d(WIDTH))
    return layers, lambda g: torch.randn(N, WIDTH, generator=g)


def images(draw: random.Random) -> tuple[list[nn.Module], Any]:
    layers: list[nn.Module] = []
    channels = 3
    for _ in range(draw.randint(1, 3)):
        groups = draw.choice((1, 1, 2))
        stride = draw.choice((1, 1, 2))
        layers.append(nn.Conv2d(channels, WIDTH, 3, stride, 1, bias=draw.random() < 0.7))
        layers.append(nn.Conv2d(WIDTH, WIDTH, draw.choice((1, 3)), 1, "same", groups=groups))
        norms = (nn.BatchNorm2d, nn.InstanceNorm2d, lambda c: nn.GroupNorm(2, c), None)
        norm = draw.choice(norms)
        layers += [norm(WIDTH)] if norm else []
        layers.append(activation(draw))
        channels = WIDTH
    extra = (
        *(
            nn.Dropout2d(0.2),
            nn.MaxPool2d(2, 1, 1),
            nn.AvgPool2d(2, 1, 1),
            nn.Upsample(scale_factor=2),
        ),
        nn.ConvTranspose2d(WIDTH, WIDTH, 2, 2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        *(nn.ReflectionPad2d(1), nn.LocalResponseNorm(2), nn.LPPool2d(2, 2, 1)),
    )
    layers.append(draw.choice(extra))
    layers += [nn.AdaptiveAvgPool2d(1) if draw.random() < 0.6 else nn.AdaptiveMaxPool2d(1)]
    layers += [nn.Flatten()]
    last = draw.random() < 0.25

    def inputs(g: Any) -> Tensor:
        x = torch.randn(N, 3, SIDE, SIDE, generator=g)
        return x.to(memory_format=torch.channels_last) if last else x

    if last:
        layers = [layer.to(memory_format=torch.channels_last) for layer in layers]
    return layers, inputs


class First(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def sequences(draw: random.Random) -> tuple[list[nn.Module], Any]:
    kinds = (
        *(lambda: Recurrent(nn.LSTM), lambda: Recurrent(nn.GRU), lambda: Recurrent(nn.RNN)),
        *(Attention, Attention, lambda: Residual(nn.LayerNorm(WIDTH)), lambda: dense(draw, WIDTH)),
        lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.1, batch_first=True),
    )
    body = [draw.choice(kinds)() for _ in range(draw.randint(1, 2))]
    options = draw.choice(({}, {}, {}, {"padding_idx": 0}, {"max_norm": 1.0}, {"sparse": True}))
    layers = [nn.Embedding(WORDS, WIDTH, **options), *body, First()]
    return layers, lambda g: torch.randint(WORDS, (N, LENGTH), generator=g)


def world(seed: int) -> World:
    """One of many training steps: the same one for the same seed, sharing nothing."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind = draw.choice((vectors, images, sequences))
    layers, source = kind(draw)
    if draw.random() < 0.15:
        layers.insert(len(layers) if kind is not sequences else 1, odd(draw))
    name, own, function, target = losses(draw)
    model = nn.Sequential(*layers, nn.Linear(WIDTH, C))
    if own:
        model.loss = own
        model.forward = lambda x: functional_sequence(model, x)
    habit = draw.choices(tuple(HABITS), tuple(HABITS.values()))[0]
    cast = habit == "autocast"
    generator = torch.Generator().manual_seed(seed)

    def inputs() -> tuple[Tensor, ...]:
        return source(generator), target(generator)

    others: list[nn.Module] = []
    weight = 0.1

    def loss(net: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16) if cast else nullcontext():
            value = function(net(x), t).sum()
        for other in others:
            with torch.no_grad():
                wanted = other(x)
            value = value + weight * functional.mse_loss(net(x), wanted)
        if habit == "penalty":
            value = value + weight * sum(p.square().sum() for p in net.parameters())
        return value

    optimizer = optimizers(draw, model)
    title = f"{kind.__name__} {name} {type(optimizer).__name__} {habit}"
    made = World(model, loss, inputs, optimizer, title, generator)
    made.is_changed = habit in ("unfreeze", "reduce dropout")
    made.has_started = draw.random() < 0.4
    follow(made, habit, others, kind(random.Random(seed))[0])
    return made


def functional_sequence(model: nn.Module, x: Tensor) -> Tensor:
    """The output of a model's layers without its loss."""
    for name, layer in model.named_children():
        x = x if name == "loss" else layer(x)
    return x


def follow(made: World, habit: str, others: list[nn.Module], layers: list[nn.Module]) -> None:
    """Adds what a script does around the step."""
    model, optimizer = made.model, made.optimizer
    if habit in ("teacher", "average"):
        other = nn.Sequential(*layers, nn.Linear(WIDTH, C))
        others.append(other)
    if habit == "average":
        made.after.append(lambda: averaged(others[0]))
    elif habit == "schedule":
        made.after.append(torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.7).step)
    elif habit == "cycle":
        made.after.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20).step)
    elif habit == "clip":
        made.clip_norm = 0.5
    elif habit == "hook":
        list(model.parameters())[-1].register_hook(lambda g: g * 2)
    elif habit == "compile":
        made.model = torch.compile(model, backend="eager")
    elif habit == "stored":
        model.register_forward_hook(lambda m, i, o: setattr(m, "output", o.detach().mean()))
    elif habit == "unfreeze":
        made.after.append(counted(30, lambda: model.requires_grad_(True)))
    elif habit == "reduce dropout":
        made.after.append(counted(20, lambda: lowered(model)))


def averaged(other: nn.Module) -> None:
    """Moves the weights of another network, as a moving average does."""
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.9)


def counted(count: int, call: Callable[[], object]) -> Callable[[], object]:
    """Calls a function once, after so many calls."""
    left = iter(range(count))
    return lambda: None if next(left, None) is not None else call()


def lowered(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
