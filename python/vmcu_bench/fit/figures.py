# SPDX-License-Identifier: Apache-2.0
"""The dataclasses that `vmcu fit --json` writes."""

from __future__ import annotations

from dataclasses import dataclass

# RAM of an inference besides its pool: the context, and at most so much of its stack.
CONTEXT_BYTES, MOST_STACK = 28, 1536


@dataclass(frozen=True)
class Limits:
    """Bytes that a model may have, None for any; of `board`, where one was named, those that the
    application leaves."""

    ram: int | None = None
    flash: int | None = None
    board: str = ""

    def lacking(self, pool_bytes: int, flash_bytes: int) -> tuple[int, int]:
        """Bytes of RAM and of flash that are missing."""
        ram = 0 if self.ram is None else max(pool_bytes - self.ram, 0)
        return ram, 0 if self.flash is None else max(flash_bytes - self.flash, 0)


@dataclass(frozen=True)
class Footprint:
    """The memory of one plan. pool_bytes: with those of a buffer for weights; flash_bytes: weights
    and tables; macs: without macs_extra, which are done twice."""

    pool_bytes: int
    flash_bytes: int
    macs: int
    macs_extra: int


@dataclass(frozen=True)
class Remedy:
    """A change that lowers a model's needs. kind: "stream", "elsewhere", "file", "int4", "image" or
    "width", or "macs", alone or behind one of the first two; options: of `vmcu build`, where it has
    them; factor and shape: of the network's image, or of its channels; ram_lacking, flash_lacking:
    the bytes that are still missing."""

    kind: str
    what: str
    options: str
    measured: Footprint
    fits: bool
    ram_lacking: int
    flash_lacking: int
    factor: float = 1.0
    shape: tuple[int, int, int] | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        what: str,
        options: str,
        measured: Footprint,
        limits: Limits,
        resized: tuple[float, tuple[int, int, int]] | None = None,
    ) -> Remedy:
        """One that was measured. resized: factor and shape."""
        ram, flash = limits.lacking(measured.pool_bytes, measured.flash_bytes)
        factor, shape = (1.0, None) if resized is None else resized
        fits = not (ram or flash)
        return cls(kind, what, options, measured, fits, ram, flash, factor, shape)


@dataclass(frozen=True)
class Fit:
    """ways: those that fit first, those that change the network last; refused: which ways there are
    not, and why; grown: the largest image and the most channels that fit."""

    model: str
    limits: Limits
    measured: Footprint
    fits: bool
    ram_lacking: int
    flash_lacking: int
    ways: tuple[Remedy, ...] = ()
    refused: tuple[str, ...] = ()
    grown: tuple[Remedy, ...] = ()
