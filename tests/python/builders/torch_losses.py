# SPDX-License-Identifier: Apache-2.0
"""Losses and optimisers for random training steps."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

# Samples of a batch, and classes.
N, C = 6, 5


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
