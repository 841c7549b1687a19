# SPDX-License-Identifier: Apache-2.0
"""Graphs of tasks for `vmcu place --graph`: MODeL's unit graphs and random ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from vmcu_tools.cli import main

Edges = list[tuple[str, str, int]]


# From one node to others, with the bytes of what goes there: MODeL's own test graphs
# (github.com/facebookresearch/MODel_opt, model_opt/native_graphs), and the peaks its tests expect.
UNITS: dict[str, tuple[Edges, int]] = {
    "simple": ([("A", "B", 10), ("B", "C", 20), ("B", "D", 30), ("D", "E", 40)], 70),
    "diamond": (
        [
            *(("A", "B", 10), ("B", "C", 20), ("B", "D", 30), ("D", "E", 40)),
            *(("E", "F", 50), ("C", "F", 60), ("F", "G", 10)),
        ],
        130,
    ),
    "control_dep": (
        [
            *(("A", "B", 10), ("B", "C", 20), ("B", "D", 30), ("D", "E", 40)),
            *(("E", "F", 50), ("C", "F", 60), ("F", "G", 10), ("C", "E", 0)),
        ],
        150,
    ),
    "multi_fanin": (
        [("A", "B", 10), ("A", "C", 20), ("B", "D", 30), ("D", "E", 40), ("C", "E", 50)],
        110,
    ),
    # An edge from two nodes is what a node of its own makes, with both behind it.
    "shared_multi_fanin": (
        [("A", "B", 10), ("A", "C", 20), ("B", "D", 0), ("C", "D", 0), ("new", "BCD", 30)],
        60,
    ),
    "diamond_with_weight": (
        [
            *(("A", "B", 10), ("B", "C", 20), ("B", "D", 30), ("D", "E", 40), ("C", "E", 50)),
            *(("E", "F", 60), ("E", "G", 70), ("F", "H", 80), ("G", "H", 90), ("H", "I", 100)),
            *(("W", "I", 0), ("W", "*", 123)),
        ],
        393,
    ),
    "two_weights": (
        [
            *(("I", "O1", 10), ("W1", "O1", 0), ("O1", "O2", 30), ("W2", "O2", 0)),
            *(("O2", "OUT", 50), ("W1", "*", 123), ("W2", "*", 321)),
        ],
        524,
    ),
    "weights": ([("I", "O", 10), ("W", "O", 0), ("O", "OUT", 50), ("W", "*", 123)], 183),
    "pathological": (
        [
            *(("M0", "F0", 1), ("M1", "F1", 9), ("M2", "F2", 1), ("M3", "F3", 8)),
            *(("M4", "F4", 1), ("M5", "F5", 7), ("M6", "F6", 8), ("M7", "F7", 7)),
        ],
        9,
    ),
}


PINNED = [
    *("M0", "M1", "F1", "M2", "M3", "F3", "M4", "M5", "F5", "F0", "M6", "F6", "F2", "M7", "F7"),
    "F4",
]


def graph_of(edges: Edges) -> dict[str, Any]:
    """Edges as JSON; those of no bytes are control edges, those to * are there all the time."""
    names = dict.fromkeys(n for one, other, _ in edges for n in (one, other) if n not in "*BCD")
    names.update(dict.fromkeys(n for one, other, _ in edges for n in (one, other) if n in "BCD"))
    names.pop("BCD", None)
    nodes: dict[str, dict[str, Any]] = {n: {"name": n, "inputs": [], "outputs": []} for n in names}
    tensors = []
    for number, (one, others, size) in enumerate(edges):
        readers = list(others) if others == "BCD" else [others]
        if not size:
            nodes[others].setdefault("after", []).append(one)
            continue
        tensors.append({"name": f"e{number}", "size": size})
        if others == "*":
            tensors[-1]["keep"] = True
            continue
        nodes[one]["outputs"].append(f"e{number}")
        for reader in readers:
            nodes[reader]["inputs"].append(f"e{number}")
    return {"tensors": tensors, "nodes": list(nodes.values())}


def random_graph(seed: int) -> dict[str, Any]:
    """Everything that the format knows."""
    dice = random.Random(seed)
    tensors, nodes = [{"name": "in", "size": 40}], []
    for number in range(dice.randint(1, 9)):
        known = [tensor["name"] for tensor in tensors]
        node: dict[str, Any] = {
            "name": f"n{number}",
            "inputs": dice.sample(known, min(len(known), dice.randint(0, 3))),
            "outputs": [],
        }
        if number and dice.random() < 0.3:
            node["after"] = [f"n{dice.randrange(number)}"]
        if dice.random() < 0.2:
            node["scratch"] = dice.randint(1, 50)
        for _ in range(dice.choice((0, 1, 1, 2))):
            tensor: dict[str, Any] = {"name": f"t{len(tensors)}", "size": dice.randint(0, 99)}
            tensor["alignment"] = dice.choice((1, 1, 4))
            if dice.random() < 0.1:
                tensor["keep"] = True
            if node["inputs"] and dice.random() < 0.2:
                tensor["shares"] = dice.choice(node["inputs"])
            tensors.append(tensor)
            node["outputs"].append(tensor["name"])
        nodes.append(node)
    return {"tensors": tensors, "nodes": nodes}


def solved(tmp_path: Path, graph: dict[str, Any], *words: str) -> dict[str, Any]:
    (tmp_path / "g.json").write_text(json.dumps(graph))
    out = tmp_path / "plan.json"
    command = ["place", "--graph", str(tmp_path / "g.json"), "--json", str(out), *words]
    assert main(command) == 0
    return json.loads(out.read_text())
