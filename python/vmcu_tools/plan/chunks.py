# SPDX-License-Identifier: Apache-2.0
"""Weights in a file outside the internal flash, which the runtime reads stage by stage into RAM.

A chunk has the constants of a stage. Kernels read it in a buffer in RAM, into which the parameters
of the stage's layers point. The file has all chunks in the order of stages, so that one stream of
reads serves them all. While a stage runs, the chunks of later ones are read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightStore:
    """The memory with the weights file: bytes per second, seconds until the first byte of a read
    arrives, and the bytes of the buffer in RAM. ram: None for as many as it takes to read each
    chunk while the stage before runs."""

    bytes_per_s: float
    latency_s: float = 0.0
    ram: int | None = None

    def read_s(self, size: int) -> float:
        """Seconds of a read of `size` bytes."""
        return self.latency_s + size / self.bytes_per_s if size else 0.0

    def __str__(self) -> str:
        ram = f",ram={self.ram}" if self.ram is not None else ""
        return f"{self.bytes_per_s / 1e6:g}MB/s,latency={self.latency_s * 1e6:g}us{ram}"


@dataclass(frozen=True)
class Chunk:
    """`size` bytes at `offset` of the file, which stage `stage` needs at `to` in the buffer. The
    read can start before stage `start`."""

    stage: int
    offset: int
    size: int
    to: int
    start: int


@dataclass(frozen=True)
class ExternalWeights:
    """The chunks of a plan, and the bytes of its buffer."""

    store: WeightStore
    chunks: tuple[Chunk, ...]
    buffer_bytes: int

    @property
    def file_bytes(self) -> int:
        """Bytes of the weights file."""
        return sum(chunk.size for chunk in self.chunks)

    def chunk_of(self, stage: int) -> Chunk | None:
        """The chunk of a stage, None for a stage without constants."""
        return next((chunk for chunk in self.chunks if chunk.stage == stage), None)
