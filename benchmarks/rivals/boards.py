# SPDX-License-Identifier: Apache-2.0
"""Cycles of CMSIS-NN's kernels by the model, beside those that boards measured.

python benchmarks/rivals/boards.py [TABLE...] [--write FILE]
python benchmarks/rivals/boards.py --against DIR

boards.csv: published cycles of an inference and their source; `counted` are instructions or cycles
of the same layers in CMSIS-NN's kernels here, and `waits` those for flash. --against counts them
again; DIR: CMSIS-NN's sources.

Sources: tigris-bench, github.com/raws-labs/tigris-bench, cortex-m-deployability/results/
summary.json at 50f599c; embedded-agent-bridge, github.com/shanemmattner/embedded-agent-bridge,
docs/ml-bench-results.md; executorch, github.com/pytorch/executorch/issues/17651, MobileNetV2 of
torchvision, 224x224, its first eight layers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / folder) for folder in ("paper", "rivals")]

import layers  # noqa: E402
import rows as lists  # noqa: E402
from manifests import Behind, hashes  # noqa: E402
from pages import MODELS, Table, options, show  # noqa: E402
from peer import CmsisNn, Peer  # noqa: E402
from vmcu_tools.boards.flash import ART_F4, Flash  # noqa: E402
from vmcu_tools.boards.table import flash_of, known  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.graph import Graph, Node, Window  # noqa: E402
from vmcu_tools.ops.average_pooling import AveragePool2D  # noqa: E402
from vmcu_tools.ops.reshape import Reshape  # noqa: E402
from vmcu_tools.ops.softmax import Softmax  # noqa: E402

FACTS = Path(__file__).with_name("boards.csv")
MACHINES = {"m4": "qemu:m4", "m7": "qemu:m7", "m33": "qemu:m33", "m55": "qemu:m55"}
FILES = {"ad": "mlperf-tiny-ad.tflite", "kws": "mlperf-tiny-kws.tflite"}
# That of tigris-bench's images.
LEVEL = "-O2"
# Rows of output that stand for all rows of a large layer.
SLICE = 16
POINT, THREE = Window((1, 1), (1, 1)), Window((3, 3), (1, 1))
HALF = Window((3, 3), (2, 2))


@dataclass(frozen=True)
class Pair:
    """An inference, or one layer of it: published cycles, and counts of the same kernels."""

    core: str
    board: str
    network: str
    engine: str
    source: str
    published: int
    counted: int
    waits: int

    @property
    def modelled(self) -> int:
        return self.counted + self.waits

    @property
    def ratio(self) -> float:
        return self.modelled / self.published


@dataclass(frozen=True)
class Part:
    """A layer, and by how much its counts are multiplied."""

    graph: Graph
    node: Node
    times: float = 1


def read() -> list[Pair]:
    """The pairs of boards.csv."""
    return lists.read(FACTS, Pair)


def parts(network: str) -> list[Part]:
    """The layers of a network; a softmax, of some bytes, is left out."""
    if network in FILES:
        graph = load(MODELS / FILES[network])
        own = [node for node in graph.nodes if not isinstance(node.op, (Reshape, Softmax))]
        return [Part(graph, node) for node in own]
    if network in LAYERS:
        return [LAYERS[network]]
    made = {"series": series, "micro_speech": micro_speech, "person_detect": person_detect}
    return [of(graph) for graph in made[network]()]


def of(graph: Graph, times: float = 1) -> Part:
    """The one layer of a graph."""
    return Part(graph, graph.nodes[0], times)


def series() -> Iterator[Graph]:
    """tigris-bench's network of a time series."""
    length, channels = 64, 8
    for outputs in (16, 32, 32):
        yield layers.convolution((length, 1), channels, outputs, Window((3, 1), (2, 1)))
        length, channels = length // 2, outputs
    yield layers.pooling(AveragePool2D, (length, 1), channels)
    yield layers.dense(channels, 10)


def micro_speech() -> Iterator[Graph]:
    """TensorFlow Lite Micro's detector of two words."""
    yield layers.depthwise((49, 40), 1, 8, Window((10, 8), (2, 2)))
    yield layers.dense(4000, 4)


def person_detect() -> Iterator[Graph]:
    """TensorFlow Lite Micro's detector of persons: MobileNet v1, a quarter as wide."""
    yield layers.depthwise((96, 96), 1, 8, HALF)
    size, channels = 48, 8
    strided, wider = (1, 3, 5, 11), (0, 1, 3, 5, 11)
    for block in range(13):
        stride = block in strided
        yield layers.depthwise((size, size), channels, channels, HALF if stride else THREE)
        size //= 1 + stride
        outputs = channels * (1 + (block in wider))
        yield layers.convolution((size, size), channels, outputs, POINT)
        channels = outputs
    yield layers.pooling(AveragePool2D, (size, size), channels)
    yield layers.dense(channels, 2)


def sliced(kind: str, size: int, channels: int, outputs: int, window: Window) -> Part:
    """A square layer, by some of its rows."""
    stride = window.stride[0]
    rows = size // stride
    graph = getattr(layers, kind)((SLICE * stride, size), channels, outputs, window)
    return of(graph, rows / SLICE)


# As boards.csv names them.
LAYERS = {
    "3x3 3->32, stride 2": sliced("convolution", 224, 3, 32, HALF),
    "dw 3x3 32": sliced("depthwise", 112, 32, 32, THREE),
    "1x1 32->16": sliced("convolution", 112, 32, 16, POINT),
    "1x1 16->96": sliced("convolution", 112, 16, 96, POINT),
    "dw 3x3 96, stride 2": sliced("depthwise", 112, 96, 96, HALF),
    "1x1 96->24": sliced("convolution", 56, 96, 24, POINT),
    "1x1 24->144": sliced("convolution", 56, 24, 144, POINT),
    "dw 3x3 144": sliced("depthwise", 56, 144, 144, THREE),
}


def flash(pair: Pair) -> Flash | None:
    """The flash of a board at the clock of what was published; None where no model has it."""
    if pair.board == "F446":
        return replace(ART_F4, waits=5)
    return flash_of(known()["rpi_pico2/rp2350a/m33"], None) if pair.board == "RP2350" else None


def count(folder: Path, pairs: Sequence[Pair]) -> Iterator[Pair]:
    """The pairs with counts of now."""
    for core in dict.fromkeys(pair.core for pair in pairs):
        library = CmsisNn(folder, MACHINES[core], LEVEL)
        with tempfile.TemporaryDirectory(prefix="vmcu-cmsis-nn-") as name:
            archive = library.archive(Path(name))
            for pair in pairs:
                if pair.core == core:
                    yield counted(pair, library, archive)


def counted(pair: Pair, library: CmsisNn, archive: Path) -> Pair:
    """The pair with the counts of its layers."""
    own, total, waits = flash(pair), 0.0, 0.0
    for part in parts(pair.network):
        found: Peer = library.run(archive, part.graph, part.node, own)
        total += part.times * (found.cycles or found.instructions)
        waits += part.times * found.waits
    return replace(pair, counted=round(total), waits=round(waits))


def boards() -> Table:
    """Modelled and measured cycles of whole networks."""
    some = [pair for pair in read() if pair.core != "m55"]
    rows = tuple(
        (
            f"{pair.core}, {pair.board}, {pair.network}, {pair.engine}",
            f"{pair.modelled:,}",
            f"{pair.published:,}",
            f"{pair.ratio:.2f}",
        )
        for pair in some
    )
    errors = []
    for core in dict.fromkeys(pair.core for pair in some):
        needed = [1 / pair.ratio for pair in some if pair.core == core]
        errors.append(f"{min(needed):.2f} to {max(needed):.2f} ({core})")
    note = f"A board takes {', '.join(errors)} times the modelled cycles."
    columns = ("core, board, network, engine", "modelled", "published", "modelled/published")
    return Table("Cycles beside boards", columns, rows, (note,), Behind(hashes([FACTS])))


def helium() -> Table:
    """Measured cycles of a Cortex-M55 for each counted instruction."""
    some = [pair for pair in read() if pair.core == "m55"]
    rows = tuple(
        (
            pair.network,
            f"{pair.counted:,}",
            f"{pair.published:,}",
            f"{pair.published / pair.counted:.2f}",
        )
        for pair in some
    )
    columns = ("layer", "instructions", "cycles, published", "cycles/instruction")
    return Table("Layers on a Cortex-M55", columns, rows, behind=Behind(hashes([FACTS])))


TABLES = {"boards": boards, "helium": helium}


def command(name: str) -> str:
    """What prints a table."""
    return f"python benchmarks/rivals/boards.py {name}"


if __name__ == "__main__":
    parser = options(__doc__ or "", [*TABLES])
    parser.add_argument("--against", type=Path, metavar="DIR")
    args = parser.parse_args()
    if args.against is not None:
        lists.write(FACTS, [vars(pair) for pair in count(args.against, read())])
    show(parser, args, TABLES, command)
