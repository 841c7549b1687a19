# SPDX-License-Identifier: Apache-2.0
"""Checks plans of `vmcu place --graph` and `vmcu place --memory` from the two files alone.
It is one file so that it can be copied and read alone.

    python checker.py GRAPH.json PLAN.json
    python checker.py PROBLEM.csv PLAN.json

Exit 0 if the plan is right, 1 if not. It imports nothing of the compiler and shares no line with
the code that it checks.

A graph: each step of the order is written down as the set of tensors alive at it. The `bound` of
all orders is proven again, by a node that needs as much in every order, or by visiting all sets of
nodes that can have run below it (at most MOST_SETS); the output says which of the two, or neither.
It does not prove a height that is larger than the worst step.

A graph with a limit (`actions` in the plan): the actions are replayed. Each place in memory has a
content, the nodes that have written it; a node must find the contents that those before it in the
order have left, and a repeated one its inputs of the first time. That nothing costs less is not
proven.

Buffers in several memories: every buffer is in a memory, at an offset that it may have, and shares
no byte with another one that is alive with it. The `bound`: at each of the plan's `moments`, the
buffers alive cost at least the price of divisible buffers; no two moments have a buffer in common,
so their costs add up. Buffers with gaps are refused.
"""

from __future__ import annotations

import csv
import itertools
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class WrongPlanError(Exception):
    """A fault of a plan."""


def demand(right: bool, what: str) -> None:
    """Raises WrongPlanError unless something is right."""
    if not right:
        raise WrongPlanError(what)


def places(graph: dict[str, Any]) -> dict[str, str]:
    """Maps each tensor to the one in whose place it lies."""
    shares = {t["name"]: t.get("shares") or t["name"] for t in graph["tensors"]}
    roots = {}
    for name in shares:
        seen = [name]
        while shares[seen[-1]] not in seen:
            seen.append(shares[seen[-1]])
        circle = seen[seen.index(shares[seen[-1]]) :]
        roots[name] = min(circle, key=list(shares).index)
    return roots


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
    place_sizes: dict[str, int] = {}
    for tensor, root in zip(graph["tensors"], places(graph).values(), strict=True):
        place_sizes[root] = max(place_sizes.get(root, 0), tensor["size"])
    return place_sizes


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
    """The bytes of running nodes; sets of nodes are bits, and each place is known by its number."""

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
        """Runs all nodes that stay below the bound and leave no more alive: any node that runs
        later frees no less then, so that running them at once spoils nothing."""
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
        """Counts the sets that can have run below a bound, none of them all nodes; None for too
        many."""
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
    """States the proof of the bound of all orders; WrongPlanError if there is an order below it."""
    run = AllOrders(graph)
    if run.alone() >= bound:
        return f"a node needs {bound} in every order"
    set_count = run.sets(bound)
    if set_count is None:
        return f"whether none needs less than {bound} is left open"
    return f"none of the orders needs less than {bound}: {set_count} sets"


class ActionReplay:
    """Runs a plan with copies and repeated nodes, on contents: by place, its writers."""

    def __init__(self, graph: dict[str, Any], plan: dict[str, Any]):
        self.plan, self.place, self.size = plan, places(graph), sizes(graph)
        self.tensors = {t["name"]: t for t in graph["tensors"]}
        self.nodes = {node["name"]: node for node in graph["nodes"]}
        made = {t for node in graph["nodes"] for t in node.get("outputs", [])}
        self.given = [root for root in self.size if root not in made]
        self.true: dict[str, list[str]] = {root: [] for root in self.given}
        self.fast: dict[str, list[str]] = {root: [] for root in self.given}
        self.slow: dict[str, list[str]] = {}
        self.saw: dict[str, dict[str, list[str]]] = {}
        self.copied, self.cost = 0, Fraction(0)

    def reads(self, node: Row) -> set[str]:
        """The places that a node needs and does not make."""
        outputs = node.get("outputs", [])
        return {self.place[t] for t in (*node.get("inputs", []), *outputs)} - set(outputs)

    def changes(self, node: Row) -> set[str]:
        """The places that a node makes or changes."""
        return {self.place[t] for t in (*node.get("outputs", []), *node.get("writes", []))}

    def present(self, key: str, at: int) -> set[str]:
        """The places that lie in a memory during an action and have been there before it."""
        return {
            stay["tensor"]
            for stay in self.plan[key]
            if "tensor" in stay and stay["first"] <= at - (at > 0) and at < stay["until"]
        }

    def run(self) -> None:
        """All actions; WrongPlanError."""
        for at, action in enumerate(self.plan["actions"]):
            for memory, key in ((self.fast, "stays"), (self.slow, "copies")):
                for lost in memory.keys() - self.present(key, at):
                    if self.size[lost]:
                        del memory[lost]
            self.act(at, action)
        missing = [name for name in self.nodes if name not in self.saw]
        demand(not missing, f"{missing} do not run")
        end = len(self.plan["actions"])
        for tensor in self.tensors.values():
            root = self.place[tensor["name"]]
            if tensor.get("keep") and self.size[root]:
                inside = end == 0 or root in self.present("stays", end - 1) or self.new(root, end)
                demand(inside, f"{root} is not in memory at the end")
                demand(self.fast.get(root) == self.true[root], f"{root} is stale at the end")

    def new(self, root: str, end: int) -> bool:
        """Whether a place comes into memory by the last action and stays."""
        return any(
            s.get("tensor") == root and s["first"] == end - 1 and s["until"] >= end
            for s in self.plan["stays"]
        )

    def act(self, at: int, action: Row) -> None:
        """One action."""
        what, name = action["do"], action["name"]
        if what in ("store", "fetch"):
            source, target = (self.fast, self.slow) if what == "store" else (self.slow, self.fast)
            demand(name in source, f"action {at} copies {name}, which is not there")
            target[name] = list(source[name])
            self.copied += self.size[name]
            self.cost += self.size[name] * Fraction(self.plan["memories"][1]["cost"])
            return
        demand(what in ("run", "repeat"), f"action {at} is a {what}")
        node = self.nodes[name]
        contents = {root: list(self.fast[root]) for root in self.reads(node) if root in self.fast}
        demand(contents.keys() == self.reads(node), f"{name} lacks an input in action {at}")
        if what == "run":
            demand(name not in self.saw, f"{name} runs twice")
            demand(self.saw.keys() >= set(node.get("after", [])), f"{name} runs too early")
            stale = [root for root in contents if contents[root] != self.true[root]]
            demand(not stale, f"{name} reads {stale}, which are not as they were left")
            self.saw[name] = contents
            for root in self.changes(node):
                before = [] if root in node.get("outputs", []) else self.true[root]
                self.true[root] = self.fast[root] = [*before, name]
            return
        root = action["tensor"]
        demand(bool(node.get("repeatable")), f"{name} cannot be repeated")
        demand(self.saw.get(name) == contents, f"{name} does not find again what it has found")
        others = self.changes(node) - {root} - set(node.get("outputs", []))
        demand(root in self.changes(node) and not others, f"{name} changes {others} again")
        before = [] if root in node.get("outputs", []) else self.fast[root]
        self.fast[root] = [*before, name]
        self.cost += Fraction(node.get("cost", 0))

    def scratch(self, action: Row) -> int:
        """The bytes of an action beside places."""
        node = self.nodes.get(action["name"], {}) if action["do"] in ("run", "repeat") else {}
        beside = [t for t in node.get("outputs", []) if self.place[t] == t]
        lost = [t for t in beside if action["do"] == "repeat" and t != action["tensor"]]
        return int(node.get("scratch", 0)) + sum(self.size[t] for t in lost)

    def height(self, key: str) -> tuple[int, int]:
        """The bytes in the worst action, and the highest end, in one memory."""
        peak = height = 0
        for at, action in enumerate(self.plan["actions"]):
            need, spans = self.scratch(action) if key == "stays" else 0, []
            for stay in self.plan[key]:
                if stay["first"] <= at < stay["until"]:
                    name = stay.get("tensor")
                    size = need if name is None else self.size[name]
                    of_this = name is not None or stay["scratch"] == action["name"]
                    demand(of_this, f"scratch in action {at} is another node's")
                    spans.append((stay["offset"], stay["offset"] + size, str(name)))
            there = any(name == "None" for _, _, name in spans)
            demand(there or not need, f"action {at} has no scratch")
            for (_, end, one), (first, _, other) in itertools.pairwise(sorted(spans)):
                demand(end <= first, f"{one} and {other} share bytes in action {at}")
            demand(
                all(first >= 0 for first, _, _ in spans), f"an offset in action {at} is negative"
            )
            peak = max(peak, sum(end - first for first, end, _ in spans))
            height = max([height, *(end for _, end, _ in spans)])
        return peak, height


def check_limited(graph: dict[str, Any], plan: dict[str, Any]) -> str:
    """Checks a plan with a limit and returns its figures; WrongPlanError."""
    replay = ActionReplay(graph, plan)
    replay.run()
    for stay in plan["stays"]:
        for tensor in (
            t for t in graph["tensors"] if replay.place[t["name"]] == stay.get("tensor")
        ):
            right = stay["offset"] % tensor.get("alignment", 1) == 0
            fixed = tensor.get("offset")
            demand(right and fixed in (None, stay["offset"]), f"{tensor['name']} is misplaced")
    peak, height = replay.height("stays")
    slow = replay.height("copies")[1] if plan["copies"] else 0
    for key, value in (("peak", peak), ("height", height), ("copied", replay.copied)):
        demand(plan[key] == value, f"{key} is {value}, not {plan[key]}")
    cost = float(replay.cost)
    demand(abs(cost - plan["cost"]) <= 1e-9 * max(cost, 1), f"the cost is {cost}")
    for memory, used in zip(plan["memories"], (height, slow), strict=False):
        demand(used <= memory["capacity"], f"{memory['name']} has less than {used} bytes")
        demand(used == memory["height"], f"{memory['name']} takes {used} bytes")
    return (
        f"right: {height} bytes, {peak} in the worst action, {replay.copied} copied, cost {cost:g}"
    )


def rows_of(path: Path) -> list[Row]:
    """The buffers of a problem."""
    rows: list[Row] = []
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            demand(not line.get("gaps"), "buffers with gaps are not checked")
            row: Row = {name: int(line[name]) for name in ("lower", "upper", "size")}
            row["alignment"] = int(line.get("alignment") or 1)
            row["accesses"] = int(line.get("accesses") or row["size"])
            row["offset"] = None if line.get("offset") in (None, "", "-1") else int(line["offset"])
            rows.append({"id": line["id"], **row})
    return rows


def check_places(rows: list[Row], plan: dict[str, Any]) -> Fraction:
    """The cost of a plan whose places are right."""
    memories = plan["memories"]
    demand(plan["buffers"].keys() == {row["id"] for row in rows}, "other buffers have places")
    cost, spans = Fraction(0), []
    for row in rows:
        place = plan["buffers"][row["id"]]
        memory, at = memories[place["memory"]], place["offset"]
        within = 0 <= at <= at + row["size"] <= min(memory["capacity"], memory["height"])
        demand(within, f"{row['id']} is beyond its memory")
        demand(at % row["alignment"] == 0, f"{row['id']} is not aligned")
        demand(row["offset"] in (None, at), f"{row['id']} has another offset")
        cost += row["accesses"] * Fraction(memory["cost"])
        spans.append((place["memory"], at, row))
    for (m1, a1, one), (m2, a2, two) in itertools.combinations(spans, 2):
        together = one["lower"] < two["upper"] and two["lower"] < one["upper"]
        apart = m1 != m2 or a1 + one["size"] <= a2 or a2 + two["size"] <= a1
        demand(not together or apart, f"{one['id']} and {two['id']} share bytes")
    return cost


def least(rows: list[Row], moment: int, memories: list[dict[str, Any]]) -> Fraction:
    """Returns the least cost of the buffers alive at a moment: bytes with the most accesses go
    first, into the memories from the cheap to the dear."""
    room = [[Fraction(m["cost"]), m["capacity"]] for m in sorted(memories, key=lambda m: m["cost"])]
    bytes_ = [
        (Fraction(row["accesses"], row["size"]), row["size"])
        for row in rows
        if row["lower"] <= moment < row["upper"] and row["size"]
    ]
    cost = Fraction(0)
    for each, count in sorted(bytes_, reverse=True):
        while count and room:
            part = min(count, room[0][1])
            cost += each * part * room[0][0]
            room[0][1] -= part
            count -= part
            if not room[0][1]:
                room.pop(0)
    return cost


def check_memories(rows: list[Row], plan: dict[str, Any]) -> tuple[float, float]:
    """Cost and bound; WrongPlanError."""
    cost = check_places(rows, plan)
    demand(abs(float(cost) - plan["cost"]) <= 1e-9 * max(float(cost), 1), f"the cost is {cost}")
    for one, two in itertools.pairwise(sorted(plan["moments"])):
        both = [row["id"] for row in rows if row["lower"] <= one and two < row["upper"]]
        demand(one < two and not both, f"moments {one} and {two} have {both} in common")
    bound = sum(least(rows, moment, plan["memories"]) for moment in plan["moments"])
    demand(plan["bound"] <= float(bound) * (1 + 1e-9), f"these moments prove {float(bound)} only")
    demand(plan["optimal"] == (plan["cost"] <= plan["bound"] * (1 + 1e-9)), "'optimal' is wrong")
    return float(cost), float(bound)


def graph_verdict(graph: dict[str, Any], plan: dict[str, Any]) -> str:
    """Checks the plan of a graph and returns its figures; WrongPlanError."""
    if "actions" in plan:
        return check_limited(graph, plan)
    peak, height = check(graph, plan)
    text = f"right: {height} bytes, {peak} in the worst step, none less in this order"
    return text if graph.get("order") else f"{text}\n{proof(graph, min(plan['bound'], peak))}"


def main(words: list[str]) -> int:
    problem, plan = Path(words[0]), json.loads(Path(words[1]).read_text(encoding="utf-8"))
    try:
        if problem.suffix == ".csv":
            cost, bound = check_memories(rows_of(problem), plan)
            print(f"right: costs {cost:g}, nothing less than {bound:g}")
        else:
            print(graph_verdict(json.loads(problem.read_text(encoding="utf-8")), plan))
    except (WrongPlanError, KeyError) as error:
        print(f"wrong: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
