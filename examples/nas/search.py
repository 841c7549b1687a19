# SPDX-License-Identifier: Apache-2.0
"""A small evolutionary search: the network with the most multiply-accumulates that fits into RAM.

python examples/nas/search.py --ram 8K

Candidates differ in the channels and windows of their blocks. Nothing is trained: score() is where
an accuracy would come from.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import vmcu_tools
from vmcu_tools.graph import Graph, Node, Port, Tensor, Window
from vmcu_tools.ops import bind
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.quant import FixedPoint
from vmcu_tools.values import byte_count

IMAGE = (32, 32, 3)
CLASSES = 10
WIDTHS = (8, 16, 24, 32, 48, 64)
KERNELS = (3, 5, 7)
BLOCKS = 4


@dataclass(frozen=True)
class Candidate:
    """Channels of each block, and the window of its depthwise layer; every other one halves."""

    widths: tuple[int, ...]
    kernels: tuple[int, ...]


class Network:
    """A graph that grows layer by layer, with weights that mean nothing."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.last = self._tensor("input", IMAGE)

    def _tensor(self, name: str, shape: tuple[int, int, int]) -> Tensor:
        self.tensors[name] = Tensor(name, shape, 1 / 16, 0)
        return self.tensors[name]

    def _add(self, op: object, shape: tuple[int, int, int]) -> None:
        name = f"layer{len(self.nodes)}"
        self.nodes.append(Node(name, op, (self.last.name,), (name,)))
        self.last = self._tensor(name, shape)

    def convolve(self, channels: int, kernel: int = 1, stride: int = 1) -> None:
        window, (height, width) = self._window(kernel, stride)
        weights = np.ones((channels, kernel, kernel, self.last.shape[2]), np.int8)
        op = Conv2D(weights, np.zeros(channels, np.int32), window, _factors(channels))
        self._add(op, (height, width, channels))

    def convolve_depthwise(self, kernel: int, stride: int) -> None:
        window, (height, width) = self._window(kernel, stride)
        channels = self.last.shape[2]
        weights = np.ones((kernel, kernel, channels), np.int8)
        op = DepthwiseConv2D(weights, np.zeros(channels, np.int32), window, _factors(channels))
        self._add(op, (height, width, channels))

    def average(self) -> None:
        height, width, channels = self.last.shape
        self._add(AveragePool2D(Window((height, width))), (1, 1, channels))

    def _window(self, kernel: int, stride: int) -> tuple[Window, tuple[int, int]]:
        pad = kernel // 2
        window = Window((kernel, kernel), (stride, stride), pad=(pad, pad, pad, pad))
        height, width = (window.out_size(axis, self.last.shape[axis]) for axis in (0, 1))
        return window, (height, width)

    @property
    def graph(self) -> Graph:
        ports = [Port(name, name, (1, *self.tensors[name].shape), "int8") for name in self._ends]
        return Graph("candidate", "", self.tensors, tuple(self.nodes), (ports[0],), (ports[1],))

    @property
    def _ends(self) -> tuple[str, str]:
        return "input", self.last.name


def _factors(channels: int) -> FixedPoint:
    return FixedPoint.of(np.full(channels, 1 / 256))


def network(candidate: Candidate) -> Graph:
    """The graph of a candidate."""
    made = Network()
    made.convolve(candidate.widths[0], 3, 2)
    for number, (width, kernel) in enumerate(zip(candidate.widths, candidate.kernels, strict=True)):
        made.convolve_depthwise(kernel, 1 + number % 2)
        made.convolve(width)
    made.average()
    made.convolve(CLASSES)
    return made.graph


def score(candidate: Candidate) -> float:
    """What is to be large: here the multiply-accumulates. Put an accuracy here."""
    graph = network(candidate)
    return float(sum(bind(graph, node).macs for node in graph.nodes))


def needs(candidate: Candidate, cache: Path | None = None) -> int:
    """Bytes of RAM."""
    return vmcu_tools.peak(network(candidate), cache)


def drawn(rng: np.random.Generator) -> Candidate:
    """Any candidate."""
    return Candidate(
        tuple(int(one) for one in rng.choice(WIDTHS, BLOCKS)),
        tuple(int(one) for one in rng.choice(KERNELS, BLOCKS)),
    )


def changed(parent: Candidate, rng: np.random.Generator) -> Candidate:
    """A candidate with one gene of another kind."""
    place = int(rng.integers(BLOCKS))
    if rng.random() < 0.5:
        widths = [*parent.widths]
        widths[place] = int(rng.choice(WIDTHS))
        return replace(parent, widths=tuple(widths))
    kernels = [*parent.kernels]
    kernels[place] = int(rng.choice(KERNELS))
    return replace(parent, kernels=tuple(kernels))


def evolve(
    ram: int,
    run: Callable[[Iterable[Candidate]], Iterable[int]],
    generations: int,
    population: int,
    seed: int = 0,
) -> Iterator[tuple[int, Candidate, int]]:
    """After each generation its number, the best candidate so far, and its bytes. run: what
    candidates need."""
    rng = np.random.default_rng(seed)
    known: dict[Candidate, int] = {}
    group = [drawn(rng) for _ in range(population)]
    for generation in range(generations):
        new = [one for one in dict.fromkeys(group) if one not in known]
        known |= dict(zip(new, run(new), strict=True))
        fitting = sorted((one for one in known if known[one] <= ram), key=score, reverse=True)
        parents = fitting[: population // 3] or sorted(known, key=known.__getitem__)[:3]
        if fitting:
            yield generation, fitting[0], known[fitting[0]]
        picked = rng.integers(len(parents), size=population)
        group = [changed(parents[int(one)], rng) for one in picked]


@contextmanager
def executor(dask: str, workers: int) -> Iterator[Executor]:
    """Processes of this computer, or those of a Dask cluster: "local", or its address."""
    if not dask:
        with ProcessPoolExecutor(workers) as pool:
            yield pool
        return
    from dask.distributed import Client, LocalCluster

    place = LocalCluster(n_workers=workers, threads_per_worker=1) if dask == "local" else dask
    with Client(place) as client:
        yield client.get_executor()
    if dask == "local":
        place.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ram", type=byte_count, default=8192, metavar="SIZE")
    parser.add_argument("--generations", type=int, default=6)
    parser.add_argument("--population", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dask", default="", metavar="ADDRESS", help="of a cluster, or 'local'")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as cache, executor(args.dask, args.workers) as pool:

        def run(candidates: Iterable[Candidate]) -> Iterable[int]:
            asked = [pool.submit(needs, one, Path(cache)) for one in candidates]
            return [answer.result() for answer in asked]

        found = evolve(args.ram, run, args.generations, args.population, args.seed)
        for generation, best, size in found:
            macs = int(score(best))
            print(f"generation {generation}: {macs:,} MACs in {size:,} bytes: {best}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
