# SPDX-License-Identifier: Apache-2.0
"""The kernels that containers can name, and their loader's checks of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..kernels.language.packing import WORDS, Packing
from ..kernels.targets import packings
from .values import CStruct, Kernel, Member, Value

# Conditions that many kernels have: of an input that is as large as the output; of one input of any
# size; of as many channels in both.
ALIKE = "vmcu_check_alike(c, 1U)"
ONE_INPUT = "vmcu_check_inputs(c, 1U) && vmcu_check_calls(c)"
SAME_CHANNELS = "vmcu_check_input(c, 0)->channels == vmcu_check_output(c)->channels"
# By the type of a member of a parameter struct: the condition that it has to meet, in C.
CHECKED = {
    "bool": "vmcu_check_bool(&p->{name})",
    "vmcu_factor": "vmcu_check_shift(p->{name}.shift)",
    "vmcu_float_sum": "vmcu_check_float_sum(&p->{name})",
    "vmcu_window": "vmcu_check_window(c, &p->{name})",
}
# How C writes constants of a type, but for small signed ones.
CONSTANTS = {f"uint{bits}_t": "{}U" for bits in (8, 16, 32)} | {"vmcu_long_t": "INT64_C({})"}
KERNEL_TYPES: dict[str, KernelType] = {}
# Those whose targets have pooling and sums of their own, see kernels/programs.
BYTEWISE = tuple(packing for packing in packings() if packing == WORDS or packing.has_pooling)


def packing_name(packing: Packing) -> str:
    """The name of a packing's numbers in the loader's C."""
    return f"packing{packing.suffix}"


class KernelType:
    """A C function that computes layers, and how the loader of containers checks a layer of it.

    A layer passes if members of its parameters are within `limits`, the least and the largest
    value; `conditions` hold, in C, of the layer `c` and its parameters `p`; each member meets the
    condition of its type, see CHECKED; and the container has as many elements behind each pointer
    as `arrays` says, in C. Tests damage containers accordingly. `check` is a function of
    lib/vmcu/container in place of all these. `reads` is a value of enum vmcu_reads without its
    prefix. `streams` is true if only models with state have the kernel. `packing` is the layout of
    its streams, for kernels that read weights; `{packing}` in `check` is a pointer to it.

    Called with the values of its parameters, it gives the kernel of a layer.
    """

    def __init__(
        self,
        symbol: str,
        params: CStruct | None,
        *conditions: str,
        reads: str = "ALL",
        arrays: Mapping[str, str] | None = None,
        limits: Mapping[str, tuple[int | None, int | None]] | None = None,
        check: str = "",
        streams: bool = False,
        packing: Packing = WORDS,
    ):
        """Raises TypeError if a layer would pass with a pointer that nothing checks."""
        self.symbol, self.params, self.reads, self.streams = symbol, params, reads, streams
        self.conditions, self.arrays = conditions, arrays or {}
        self.check = check.format(packing=f"&{packing_name(packing)}")
        self.limits, self.packing = limits or {}, packing
        named = " ".join(conditions)
        unchecked = [
            name
            for name in self.pointers
            if name not in self.arrays and not re.search(rf"\bp->{name}\b", named)
        ]
        if not check and (unchecked or not conditions):
            raise TypeError(f"{symbol}: nothing checks its layers, or {unchecked}")
        KERNEL_TYPES[symbol] = self

    def __call__(self, **fields: Value) -> Kernel:
        return Kernel(self.symbol, self.params(**fields) if self.params else None)

    @property
    def members(self) -> dict[str, Member]:
        return self.params.members if self.params else {}

    @property
    def pointers(self) -> list[str]:
        return [name for name, member in self.members.items() if member.pointer]

    def checks(self) -> Iterator[str]:
        """All conditions, in C."""
        for name, (least, largest) in self.limits.items():
            constant = CONSTANTS.get(self.members[name].kind, "{}").format
            if least is not None:
                yield f"p->{name} >= {constant(least)}"
            if largest is not None:
                yield f"p->{name} <= {constant(largest)}"
        yield from self.conditions
        for name, member in self.members.items():
            if not member.pointer and member.kind in CHECKED:
                yield CHECKED[member.kind].format(name=name)
        for name, count in self.arrays.items():
            yield f"vmcu_check_array(c, p->{name}, {count}, sizeof(*p->{name}))"
