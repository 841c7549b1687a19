# SPDX-License-Identifier: Apache-2.0
"""Checks what `vmcu place --graph` says, from the two JSON files alone.

    python checker.py GRAPH.json PLAN.json

It imports nothing of the rest and shares no line with what it checks: every moment of the order is
written down as the set of tensors alive at it. Exit 0 if the plan is right, 1 if not. What no order
can do without (`bound`) it does not prove again.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any


class WrongPlanError(Exception):
    """What is wrong with a plan."""


def demand(right: bool, what: str) -> None:
    """Raises WrongPlanError unless something is right."""
    if not right:
        raise WrongPlanError(what)


def places(graph: dict[str, Any]) -> dict[str, str]:
    """By tensor the one in whose place it lies."""
    shares = {t["name"]: t.get("shares") or t["name"] for t in graph["tensors"]}
    found = {}
    for name in shares:
        seen = [name]
        while shares[seen[-1]] not in seen:
            seen.append(shares[seen[-1]])
        circle = seen[seen.index(shares[seen[-1]]) :]
        found[name] = min(circle, key=list(shares).index)
    return found


def moments(graph: dict[str, Any], order: list[str]) -> list[set[str]]:
    """The places in use while each node of an order runs."""
    at, place = {name: step for step, name in enumerate(order)}, places(graph)
    made = {t: at[n["name"]] for n in graph["nodes"] for t in n.get("outputs", [])}
    used: dict[str, list[int]] = {name: [] for name in place}
    for node in graph["nodes"]:
        for tensor in node.get("inputs", []):
            used[tensor].append(at[node["name"]])
            demand(made.get(tensor, -1) < at[node["name"]], f"{tensor} is read before it is made")
        for other in node.get("after", []):
            demand(at[other] < at[node["name"]], f"{node['name']} runs before {other}")
    alive: list[set[str]] = [set() for _ in order]
    for root in set(place.values()):
        group = [t for t in graph["tensors"] if place[t["name"]] == root]
        begun = [made[t["name"]] for t in group if t["name"] in made]
        first = made.get(root, 0)
        last = [step for t in group for step in used[t["name"]]] + begun
        if any(t.get("keep") for t in group):
            last.append(len(order) - 1)
        for step in range(first, max(last, default=-1) + 1):
            alive[step].add(root)
    return alive


def sizes(graph: dict[str, Any]) -> dict[str, int]:
    """The bytes of each place."""
    found: dict[str, int] = {}
    for tensor, root in zip(graph["tensors"], places(graph).values(), strict=True):
        found[root] = max(found.get(root, 0), tensor["size"])
    return found


def check(graph: dict[str, Any], plan: dict[str, Any]) -> tuple[int, int]:
    """The bytes of the worst step, and those that its order needs at least; WrongPlanError."""
    names = [node["name"] for node in graph["nodes"]]
    demand(sorted(plan["order"]) == sorted(names), "the order does not name each node once")
    size, place = sizes(graph), places(graph)
    scratch = {node["name"]: node.get("scratch", 0) for node in graph["nodes"]}
    peak = height = 0
    for name, alive in zip(plan["order"], moments(graph, plan["order"]), strict=True):
        peak = max(peak, scratch[name] + sum(size[tensor] for tensor in alive))
        if plan["offsets"] is None:
            continue
        spans = [(plan["offsets"][t], plan["offsets"][t] + size[t], t) for t in alive if size[t]]
        height = max([height, *(end for _, end, _ in spans)])
        for (_, end, one), (start, _, other) in itertools.pairwise(sorted(spans)):
            demand(end <= start, f"{one} and {other} share bytes while {name} runs")
    for tensor in graph["tensors"] if plan["offsets"] is not None else ():
        at = plan["offsets"][tensor["name"]]
        root = plan["offsets"][place[tensor["name"]]]
        demand(at >= 0 and at % tensor.get("alignment", 1) == 0, f"{tensor['name']} is at {at}")
        demand(at == tensor.get("offset", at) == root, f"{tensor['name']} is at {at}")
    demand(plan["peak"] == peak, f"the worst step needs {peak} bytes, not {plan['peak']}")
    demand(plan["height"] >= max(peak, height), f"the height is at least {max(peak, height)}")
    return peak, max(peak, height)


def main(words: list[str]) -> int:
    graph, plan = (json.loads(Path(word).read_text(encoding="utf-8")) for word in words)
    try:
        peak, height = check(graph, plan)
    except (WrongPlanError, KeyError) as error:
        print(f"wrong: {error}")
        return 1
    print(f"right: {height} bytes, {peak} in the worst step, none less in this order")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
