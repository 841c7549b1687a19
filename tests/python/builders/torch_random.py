# SPDX-License-Identifier: Apache-2.0
"""Random training steps of PyTorch: layers, losses, optimisers and the habits of scripts."""

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

N, C, WIDTH, SIDE, LENGTH, WORDS = 6, 5, 8, 6, 4, 11
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


def losses(draw: random.Random) -> tuple[str, nn.Module | None, Any, Any]:
    """A loss of torch.nn: its name, a module with weights of its own, the function of output and
    target, and the target."""
    how = draw.choice(("mean", "mean", "sum", "none"))
    signs = lambda g: torch.randint(2, (N, C), generator=g) * 2.0 - 1  # noqa: E731
    real = lambda g: torch.randn(N, C, generator=g)  # noqa: E731
    share = lambda g: torch.rand(N, C, generator=g)  # noqa: E731
    classes = lambda g: torch.randint(C, (N,), generator=g)  # noqa: E731
    bits = lambda g: torch.randint(2, (N, C), generator=g).float()  # noqa: E731
    plain: dict[str, Any] = {
        "L1Loss": real,
        "MSELoss": real,
        "HuberLoss": real,
        "SmoothL1Loss": real,
        "CrossEntropyLoss": draw.choice((classes, classes, share)),
        "PoissonNLLLoss": share,
        "BCEWithLogitsLoss": bits,
        "HingeEmbeddingLoss": signs,
        "SoftMarginLoss": signs,
        "MultiLabelSoftMarginLoss": bits,
        "MultiLabelMarginLoss": lambda g: torch.randint(C, (N, C), generator=g),
        "MultiMarginLoss": classes,
    }
    column = lambda g: signs(g)[:, 0].contiguous()  # noqa: E731
    made: dict[str, Any] = {
        name: (None, getattr(nn, name)(reduction=how), t) for name, t in plain.items()
    }
    weighted = nn.CrossEntropyLoss(torch.rand(C), label_smoothing=0.1, reduction=how)
    poisoned = nn.BCEWithLogitsLoss(pos_weight=torch.rand(C), weight=torch.rand(C))
    kl = nn.KLDivLoss(reduction="batchmean", log_target=False)
    adaptive = nn.AdaptiveLogSoftmaxWithLoss(C, 20, [5, 10])
    made |= {
        "CrossEntropyLoss weighted": (None, weighted, classes),
        "BCEWithLogitsLoss weighted": (None, poisoned, bits),
        "NLLLoss": (None, lambda y, t: nn.NLLLoss()(y.log_softmax(1), t), classes),
        "KLDivLoss": (None, lambda y, t: kl(y.log_softmax(1), t), share),
        "BCELoss": (None, lambda y, t: nn.BCELoss(reduction=how)(y.sigmoid(), t), share),
        "GaussianNLLLoss": (None, lambda y, t: nn.GaussianNLLLoss()(y, t, y.exp()), real),
        "MarginRankingLoss": (
            None,
            lambda y, t: nn.MarginRankingLoss()(y[:, 0], y[:, 1], t),
            column,
        ),
        "CosineEmbeddingLoss": (None, lambda y, t: nn.CosineEmbeddingLoss()(y, y * y, t), column),
        "TripletMarginLoss": (None, lambda y, t: nn.TripletMarginLoss()(y, t, y.flip(0)), real),
        "TripletMarginWithDistanceLoss": (
            None,
            lambda y, t: nn.TripletMarginWithDistanceLoss()(y, t, y.flip(0)),
            real,
        ),
        "CTCLoss": (
            None,
            lambda y, t: nn.CTCLoss()(y[:, None].log_softmax(2), t, (N,), (2,)),
            lambda g: torch.randint(1, C, (1, 2), generator=g),
        ),
        "AdaptiveLogSoftmaxWithLoss": (
            adaptive,
            lambda y, t: adaptive(y, t).loss,
            lambda g: torch.randint(20, (N,), generator=g),
        ),
    }
    if hasattr(nn, "LinearCrossEntropyLoss"):
        linear = nn.LinearCrossEntropyLoss(C, 20)
        labels = lambda g: torch.randint(20, (N,), generator=g)  # noqa: E731
        made["LinearCrossEntropyLoss"] = (linear, lambda y, t: linear(y, t), labels)
    name = draw.choice(sorted(made))
    return name, *made[name]


def optimizers(draw: random.Random, model: nn.Module) -> Any:
    """An optimiser: one group of parameters or two, some frozen."""
    parameters: Any = list(model.parameters())
    for parameter in parameters[:-1]:
        parameter.requires_grad_(draw.random() > 0.1)
    if draw.random() < 0.4 and len(parameters) > 1:
        half = len(parameters) // 2
        slow = {"params": parameters[:half], "lr": 0.003}
        parameters = [slow, {"params": parameters[half:], "weight_decay": 0.01}]
    optim = torch.optim
    kinds = (
        lambda p: optim.SGD(p, 0.05, draw.choice((0, 0.9)), weight_decay=draw.choice((0, 0.01))),
        lambda p: optim.SGD(p, 0.05, 0.9, nesterov=True, maximize=draw.random() < 0.2),
        lambda p: optim.Adam(p, 0.01, amsgrad=draw.random() < 0.5),
        lambda p: optim.AdamW(p, 0.01, foreach=draw.random() < 0.3),
        lambda p: optim.RMSprop(p, 0.01, momentum=draw.choice((0, 0.9)), centered=True),
        lambda p: optim.Adagrad(p, 0.05),
        lambda p: optim.Adadelta(p),
        lambda p: optim.Adamax(p, 0.01),
        lambda p: optim.NAdam(p, 0.01),
        lambda p: optim.RAdam(p, 0.01),
        lambda p: optim.Rprop(p, 0.01),
        lambda p: optim.ASGD(p, 0.01),
        lambda p: optim.Adam(p, 0.01, fused=True),
        lambda p: optim.SGD(p, 0.01, 0.9, fused=True),
        lambda p: optim.LBFGS(model.parameters()),
        lambda p: optim.Adafactor(p),
    )
    weights = [9, 5, 9, 6, 4, 2, 1, 1, 1, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5]
    return draw.choices(kinds, weights)[0](parameters)


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
