# SPDX-License-Identifier: Apache-2.0
"""Prints RAM and time of networks on several microcontrollers, beside one.

python benchmarks/split/run.py [--models DIR] [--write FILE]

RAM is that of the largest node, link bytes are those of all nodes in an inference, with headers and
acknowledgements. Milliseconds are estimates for an nRF52840 DK and links of 1 Mbit/s and 0.2 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_split.commands.split import BOARD  # noqa: E402
from vmcu_split.nodes import Wire  # noqa: E402
from vmcu_split.report import figures_of  # noqa: E402
from vmcu_split.search import best_split  # noqa: E402
from vmcu_tools.boards.table import known  # noqa: E402
from vmcu_tools.planner.registry import DEFAULTS  # noqa: E402

WIRE = Wire(1e6, 2e-4)
STORYTELLER = "storyteller"
# By model, the numbers of nodes.
NODES = {"mlperf-tiny-vww": (2, 4), "mlperf-tiny-resnet8": (4,), STORYTELLER: (2,)}
COLUMNS = (
    *("model", "nodes", "best", "kind", "RAM", "RAM, one node", "link bytes"),
    *("estimated ms", "estimated ms, one node"),
)


def row(path: Path, nodes: int, best: str) -> tuple[str, ...]:
    """A line of the table."""
    parts = best_split(path, nodes, WIRE, best, known()[BOARD], DEFAULTS)
    found = figures_of(path.stem, best, *parts)
    one = found["one_node"]
    sizes = (f"{n:,}" for n in (found["ram_bytes"], one["ram_bytes"], found["link_bytes"]))
    times = (f"{1000 * some['latency_s']:.1f}" for some in (found, one))
    return path.stem, str(nodes), best, found["kind"], *sizes, *times


def split(folder: Path, names: Sequence[str] = (*NODES,)) -> Table:
    """Two lines for each model and number of nodes. folder: of the networks."""
    files = {name: folder / f"{name}.tflite" for name in names}
    if STORYTELLER in files:
        files[STORYTELLER] = ROOT / "samples" / STORYTELLER / f"{STORYTELLER}.onnx"
    rows = tuple(
        row(files[name], nodes, best)
        for name in names
        for nodes in NODES[name]
        for best in ("ram", "latency")
    )
    behind = Behind(hashes({*files.values()}))
    return Table("Networks on several microcontrollers", COLUMNS, rows, behind=behind)


def command(_: str) -> str:
    return "python benchmarks/split/run.py"


if __name__ == "__main__":
    show_of_models(__doc__, {"split": split}, command)
