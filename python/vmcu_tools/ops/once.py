# SPDX-License-Identifier: Apache-2.0
"""Streams of constants, made once for all layers that share them: bands of one layer, its tiles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Made:
    """A value computed from some objects, such as weights, and values; equal where the objects
    are the same ones and the values equal."""

    objects: tuple[object, ...]
    values: tuple[Hashable, ...]
    make: Callable[[], bytes] = field(repr=False)

    def __hash__(self) -> int:
        return hash((*map(id, self.objects), *self.values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Made) or self.values != other.values:
            return False
        pairs = zip(self.objects, other.objects, strict=True)
        return all(one is two for one, two in pairs)


@functools.lru_cache(maxsize=1 << 11)
def once(made: Made) -> bytes:
    """The bytes. Objects live as long as these are kept, so that no other takes their place."""
    return made.make()
