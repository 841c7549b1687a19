# SPDX-License-Identifier: Apache-2.0
"""A GPT with the layers of nanoGPT, for whole texts and, with caches of keys and values, for one
word at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

# What the mask adds to scores that do not count.
HIDDEN = -1e4


@dataclass(frozen=True)
class Shape:
    """words: size of the vocabulary; block: positions, and words that a step attends to."""

    words: int
    block: int = 64
    layers: int = 3
    heads: int = 4
    width: int = 48


class Block(nn.Module):
    """Attention and a feed-forward part."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.ln_1, self.ln_2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention = nn.Linear(shape.width, 3 * shape.width)
        self.projection = nn.Linear(shape.width, shape.width)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
        )

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, past: tuple[torch.Tensor, ...] = ()
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the new x, and the keys and values of `past` and x, (batch, heads, words, depth).
        With `past`, x has one word."""
        count = 1 if past else self.shape.block
        depth = self.shape.width // self.shape.heads
        query, key, value = (
            part.view(-1, count, self.shape.heads, depth).transpose(1, 2)
            for part in self.attention(self.ln_1(x)).split(self.shape.width, 2)
        )
        if past:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        scores = query @ key.transpose(2, 3) / depth**0.5 + mask
        seen = (scores.softmax(-1) @ value).transpose(1, 2).reshape(-1, count, self.shape.width)
        x = x + self.projection(seen)
        return x + self.mlp(self.ln_2(x)), key, value


class GPT(nn.Module):
    """Whole texts of `block` words: logits of each next word."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.words, shape.width)
        self.positions = nn.Embedding(shape.block, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.shape.block)
        mask = torch.full((len(places), len(places)), HIDDEN).triu(1)
        x = self.words(words) + self.positions(places)
        for block in self.blocks:
            x, _, _ = block(x, mask)
        return self.head(self.norm(x))


class Step(nn.Module):
    """One word: its number and position, each (1, 1), and the caches of `block` - 1 earlier words
    become the logits of the next word and the next caches."""

    def __init__(self, gpt: GPT):
        super().__init__()
        self.gpt = gpt

    def forward(
        self, word: torch.Tensor, position: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        # Slots of a cache in front of the text are empty.
        slots = torch.arange(self.gpt.shape.block)
        full = slots >= self.gpt.shape.block - 1 - position
        mask = torch.where(full, torch.zeros(1), torch.full((1,), HIDDEN))
        x = self.gpt.words(word) + self.gpt.positions(position)
        present = []
        for number, block in enumerate(self.gpt.blocks):
            x, key, value = block(x, mask, past[2 * number : 2 * number + 2])
            present += [key[:, :, 1:], value[:, :, 1:]]
        return self.gpt.head(self.gpt.norm(x)), *present
