# SPDX-License-Identifier: Apache-2.0
"""Checks what `vmcu place PROBLEM.csv --memory` says, from the two files alone.

    python memory_checker.py PROBLEM.csv PLAN.json

It imports nothing of the rest and shares no line with what it checks. Validity: every buffer is in
a memory, at an offset that it may have, and shares no byte with another that is alive with it.
Bound: at each of the moments that the plan names, the buffers alive cost at least what they would
if each could be divided; no two of these moments have a buffer in common, so their costs add up.
It reads the columns id, lower, upper, size, alignment, offset and accesses, and refuses gaps. Exit
0 if the plan is right, 1 if not.
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


class WrongDistributionError(Exception):
    """What is wrong with a plan."""


def demand(right: bool, what: str) -> None:
    """Raises WrongDistributionError unless something is right."""
    if not right:
        raise WrongDistributionError(what)


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
    """What the buffers alive at a moment cost at least: bytes with the most accesses go first, into
    the memories from the cheap to the dear."""
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


def check(rows: list[Row], plan: dict[str, Any]) -> tuple[float, float]:
    """Cost and bound; WrongDistributionError."""
    cost = check_places(rows, plan)
    demand(abs(float(cost) - plan["cost"]) <= 1e-9 * max(float(cost), 1), f"the cost is {cost}")
    for one, two in itertools.pairwise(sorted(plan["moments"])):
        both = [row["id"] for row in rows if row["lower"] <= one and two < row["upper"]]
        demand(one < two and not both, f"moments {one} and {two} have {both} in common")
    bound = sum(least(rows, moment, plan["memories"]) for moment in plan["moments"])
    demand(plan["bound"] <= float(bound) * (1 + 1e-9), f"these moments prove {float(bound)} only")
    demand(plan["optimal"] == (plan["cost"] <= plan["bound"] * (1 + 1e-9)), "'optimal' is wrong")
    return float(cost), float(bound)


def main(words: list[str]) -> int:
    try:
        cost, bound = check(rows_of(Path(words[0])), json.loads(Path(words[1]).read_text()))
    except (WrongDistributionError, KeyError) as error:
        print(f"wrong: {error}")
        return 1
    print(f"right: costs {cost:g}, nothing less than {bound:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
