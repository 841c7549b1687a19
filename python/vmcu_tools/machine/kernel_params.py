# SPDX-License-Identifier: Apache-2.0
"""The parameters of a layer, read back from the emitted C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .tables import Address, Objects, Value, expect


@dataclass(frozen=True)
class Row:
    """A layer of the table: `kernel` is its entry point, `params` the object with its parameters,
    "" for none."""

    kernel: str
    params: str


def kernel_params(objects: Objects, row: Row) -> dict[str, Value]:
    """The parameters of a layer, structs and arrays resolved: the objects behind the names in
    it."""
    order = {name: place for place, name in enumerate(objects.values)}

    def resolved(value: Any, place: int) -> Value:
        if isinstance(value, dict):
            return {member: resolved(inner, place) for member, inner in value.items()}
        if isinstance(value, list):
            return [resolved(inner, place) for inner in value]
        if isinstance(value, Address):
            expect(value.index == 0, f"an address is within '{value.name}'")
        name = value.name if isinstance(value, Address) else value
        if not isinstance(name, str) or name not in order:
            result: Value = value
            return result
        expect(order[name] < place, f"'{name}' is used before it is defined")
        return resolved(objects.values[name], order[name])

    if not row.params:
        return {}
    expect(row.params in order, f"there are no parameters '{row.params}'")
    result = resolved(objects.values[row.params], order[row.params])
    return result if isinstance(result, dict) else {"": result}
