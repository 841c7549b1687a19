# SPDX-License-Identifier: Apache-2.0
"""The figures of a split."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from vmcu_tools.report.cycles import printed
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import table

from .nodes import NodePart, Split


def figures_of(model: str, best: str, split: Split, whole: NodePart) -> dict[str, Any]:
    """Returns the figures for JSON. link_bytes: bytes that a node sends in an inference, frames
    and acknowledgements; layers: by model of a node; inputs: rows that its application writes."""
    nodes = [
        {
            "ram_bytes": split.ram_bytes(node),
            "link_bytes": split.link_bytes[node],
            "cycles": sum(part.cycles for part in split.parts_of(node)),
            "layers": [len(part.plan.steps) for part in split.parts_of(node)],
            "peers": split.peers(node),
            "inputs": [
                {"name": name, "first_row": rows.start, "rows": len(rows)}
                for name, rows in split.outside(node)
            ],
        }
        for node in range(split.count)
    ]
    return {
        "model": model,
        "kind": split.kind,
        "best": best,
        "ram_bytes": max(split.ram_bytes(node) for node in range(split.count)),
        "link_bytes": sum(split.link_bytes),
        "latency_s": split.latency_s,
        "nodes": nodes,
        "one_node": {
            "ram_bytes": whole.ram_bytes,
            "cycles": whole.cycles,
            "latency_s": whole.seconds,
        },
    }


def print_split(figures: dict[str, Any], console: Console) -> None:
    """Prints a line a node."""
    grid = table("node", "layers", "RAM bytes", "link bytes", "cycles")
    for number, node in enumerate(figures["nodes"]):
        cells = (f"{node[name]:,}" for name in ("ram_bytes", "link_bytes", "cycles"))
        grid.add_row(str(number), " + ".join(map(str, node["layers"])), *cells)
    console.print(grid)
    split, one = (
        f"{some['ram_bytes']:,} bytes of RAM, estimated {printed(1000 * some['latency_s'])} ms"
        for some in (figures, figures["one_node"])
    )
    say(console, f"{figures['kind']}: at most {split}; on one node: {one}.")
    goal = "ram_bytes" if figures["best"] == "ram" else "latency_s"
    if figures[goal] >= figures["one_node"][goal]:
        say(console, "One node is better: try fewer nodes or a faster link.")
