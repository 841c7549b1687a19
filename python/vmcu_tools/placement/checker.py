# SPDX-License-Identifier: Apache-2.0
"""Checks what `vmcu place --graph` says, from the two JSON files alone.

    python checker.py GRAPH.json PLAN.json

It imports nothing of the rest and shares no line with what it checks: every moment of the order is
written down as the set of tensors alive at it. Exit 0 if the plan is right, 1 if not. What no order
can do without (`bound`) is proven again by a node that needs as much in every order, or by going
through all sets of nodes that can have run without it, as far as these are not too many; it says
which of the two, or that it was neither. That no offsets take less than a plan's, where that is
more than the worst step, it does not prove.
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


# Sets of nodes that a proof may look at; ten thousand take some seconds.
MOST_SETS = 100_000


class AllOrders:
    """What running nodes takes; sets of nodes are bits, and each place is known by its number."""

    def __init__(self, graph: dict[str, Any]):
        place, size = places(graph), sizes(graph)
        number = {name: n for n, name in enumerate(size)}
        bit = {node["name"]: 1 << n for n, node in enumerate(graph["nodes"])}
        self.size = list(size.values())
        self.scratch = [node.get("scratch", 0) for node in graph["nodes"]]
        self.made: list[list[int]] = []
        self.read: list[list[int]] = []
        self.keep = {number[place[t["name"]]] for t in graph["tensors"] if t.get("keep")}
        self.users, self.maker = [0] * len(size), dict[int, int]()
        makers = {t: n["name"] for n in graph["nodes"] for t in n.get("outputs", [])}
        self.need = []
        for node in graph["nodes"]:
            outputs, inputs = node.get("outputs", []), node.get("inputs", [])
            roots = {place[t] for t in (*inputs, *outputs)} - set(outputs)
            self.made.append([number[t] for t in outputs if place[t] == t])
            self.read.append([number[t] for t in roots])
            before = {makers[t] for t in {*inputs, *roots} if t in makers}
            self.need.append(sum(bit[n] for n in before | set(node.get("after", []))))
            for root in self.read[-1]:
                self.users[root] |= bit[node["name"]]
            self.maker |= dict.fromkeys(self.made[-1], len(self.made) - 1)
        self.start = sum(
            size for n, size in enumerate(self.size) if n not in self.maker and self.wanted(n)
        )

    def wanted(self, place: int) -> bool:
        """Whether anybody needs a place once it is made."""
        return place in self.keep or self.users[place] > 0

    def step(self, done: int, now: int, node: int) -> tuple[int, int]:
        """Bytes while a node runs, and alive behind it."""
        after = done | 1 << node
        made = sum(self.size[t] for t in self.made[node])
        dead = sum(self.size[t] for t in self.made[node] if not self.wanted(t))
        dead += sum(
            self.size[t]
            for t in self.read[node]
            if t not in self.keep and not self.users[t] & ~after
        )
        return now + made + self.scratch[node], now + made - dead

    def alone(self) -> int:
        """The most bytes that some node needs in every order."""
        count = len(self.need)
        behind, ahead = [0] * count, self.need[:]
        changed = True
        while changed:
            changed = False
            for node in range(count):
                more = ahead[node]
                for other in range(count):
                    more |= ahead[other] if ahead[node] >> other & 1 else 0
                changed, ahead[node] = changed or more != ahead[node], more
        for node in range(count):
            for other in range(count):
                behind[other] |= (ahead[node] >> other & 1) << node
        most = self.start
        for node in range(count):
            alive = self.scratch[node]
            for place, size in enumerate(self.size):
                maker = self.maker.get(place)
                there = maker is None or maker == node or ahead[node] >> maker & 1
                late = self.users[place] & (behind[node] | 1 << node)
                if there and (place in self.keep or late or maker == node):
                    alive += size
            most = max(most, alive)
        return most

    def settled(self, done: int, now: int, bound: int) -> tuple[int, int]:
        """With all that runs below the bound and leaves no more alive: whatever else runs later
        frees no less then, so that running it at once spoils nothing."""
        going = True
        while going:
            going = False
            for node, need in enumerate(self.need):
                if done >> node & 1 or need & ~done:
                    continue
                during, left = self.step(done, now, node)
                if during < bound and left <= now:
                    done, now, going = done | 1 << node, left, True
        return done, now

    def sets(self, bound: int) -> int | None:
        """How many sets can have run below a bound, none of them all nodes; None for too many."""
        every = (1 << len(self.need)) - 1
        todo = [self.settled(0, self.start, bound)] if self.start < bound else []
        seen = {done for done, _ in todo}
        while todo:
            done, now = todo.pop()
            demand(done != every, f"there is an order below the bound of {bound}")
            for node, need in enumerate(self.need):
                if done >> node & 1 or need & ~done:
                    continue
                during, left = self.step(done, now, node)
                if max(during, left) >= bound:
                    continue
                after = self.settled(done | 1 << node, left, bound)
                if after[0] not in seen:
                    seen.add(after[0])
                    todo.append(after)
            if len(seen) > MOST_SETS:
                return None
        return len(seen)


def proof(graph: dict[str, Any], bound: int) -> str:
    """How the bound of all orders is known; WrongPlanError if there is an order below it."""
    run = AllOrders(graph)
    if run.alone() >= bound:
        return f"a node needs {bound} in every order"
    found = run.sets(bound)
    if found is None:
        return f"whether none needs less than {bound} is left open"
    return f"none of the orders needs less than {bound}: {found} sets"


def main(words: list[str]) -> int:
    graph, plan = (json.loads(Path(word).read_text(encoding="utf-8")) for word in words)
    try:
        peak, height = check(graph, plan)
        known = "" if graph.get("order") else proof(graph, min(plan["bound"], peak))
    except (WrongPlanError, KeyError) as error:
        print(f"wrong: {error}")
        return 1
    print(f"right: {height} bytes, {peak} in the worst step, none less in this order")
    if known:
        print(known)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
