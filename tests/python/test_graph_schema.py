# SPDX-License-Identifier: Apache-2.0
"""The schema of graphs accepts and refuses what the reader does, as far as a schema can tell."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from vmcu_lab import placement
from vmcu_lab.placement import InputError, graphs

SCHEMA = json.loads((Path(placement.__file__).parent / "graph.schema.json").read_text())
GRAPH = {
    "tensors": [
        {"name": "x", "size": 8, "alignment": 4, "offset": 0, "keep": True},
        {"name": "y", "size": 4, "shares": "x"},
    ],
    "nodes": [
        {"name": "a", "inputs": ["x"], "outputs": ["y"], "scratch": 2},
        {"name": "b", "inputs": ["y"], "after": ["a"]},
    ],
    "order": ["a", "b"],
}
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """What a validator makes of the words that the schema has."""
    known = {"$schema", "title", "description", "type", "required", "additionalProperties"}
    assert schema.keys() <= known | {"properties", "items", "minimum"}
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    # By the very type: a truth value is no integer.
    typed = any(type(value) is TYPES[kind] for kind in kinds)
    if kinds and not typed:
        return False
    if isinstance(value, dict) and "properties" in schema:
        names = schema["properties"]
        if not set(schema["required"]) <= value.keys() <= names.keys():
            return False
        return all(accepts(names[name], inner) for name, inner in value.items())
    if isinstance(value, list):
        return "items" not in schema or all(accepts(schema["items"], one) for one in value)
    return not isinstance(value, int) or value >= schema.get("minimum", value)


def changed() -> list[tuple[str, dict[str, Any]]]:
    """The graph with each field of each object left out, of another type, or misspelt."""
    found = [("as it is", GRAPH), ("no list", {**GRAPH, "tensors": {}})]
    values = [None, -1, "", "z" * 3, 1.5, True, [], {}, [7], 0]
    for place in (("tensors", 0), ("tensors", 1), ("nodes", 0), ("nodes", 1), None):
        for field in dict(GRAPH if place is None else GRAPH[place[0]][place[1]]):
            for value in [..., *values]:
                one = copy.deepcopy(GRAPH)
                entry: Any = one if place is None else one[place[0]][place[1]]
                entry.pop(field) if value is ... else entry.update({field: value})
                found.append((f"{place} {field} {value!r}", one))
        one = copy.deepcopy(GRAPH)
        (one if place is None else one[place[0]][place[1]]).update(sizes=1)
        found.append((f"{place} misspelt", one))
    return found


# What a schema cannot tell: what names refer to, that they differ, and what follows from the rest.
MEANING = (
    "there is no",
    "is not a multiple",
    "is there twice",
    "'order' leaves",
    "two nodes make",
    "wait for",
)


@pytest.mark.parametrize(("what", "graph"), changed(), ids=lambda one: str(one)[:40])
def test_the_schema_is_the_reader_s(what: str, graph: dict[str, Any]) -> None:
    try:
        graphs.parse(graph)
        reasons: list[str] = []
    except InputError as error:
        reasons = [complaint.reason for complaint in error.complaints]
    if accepts(SCHEMA, graph):
        assert all(any(known in reason for known in MEANING) for reason in reasons), reasons
    else:
        assert reasons, "the reader takes what the schema refuses"


def test_the_schema_has_all_fields() -> None:
    kinds = {"problem": SCHEMA["properties"]}
    for kind, key in (("tensor", "tensors"), ("node", "nodes")):
        kinds[kind] = SCHEMA["properties"][key]["items"]["properties"]
    assert {kind: set(names) for kind, names in kinds.items()} == graphs.FIELDS
