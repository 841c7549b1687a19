# SPDX-License-Identifier: Apache-2.0
"""The costs of each kernel of a linked Cortex-M image, and the stack of each model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from .calls import Calls
from .elf import Elf

# Either starts an inference.
ROOTS = ("vmcu_invoke", "vmcu_push_row")


@dataclass(frozen=True)
class KernelCost:
    """Bytes of flash. `alone`: of the kernel and the functions that only it calls, which the image
    would be smaller without; `shared`: of functions that it and other kernels call."""

    name: str
    alone: int
    shared: int
    models: tuple[str, ...]


def kernel_costs(
    elf: Elf, kernels: Mapping[str, Set[int]], runtime: Set[int]
) -> Iterator[KernelCost]:
    """`kernels`: the addresses of each model's; `runtime`: those of all functions of kernels, of
    which calls of others, such as memcpy(), do not count."""
    calls = Calls(elf, {})
    everyone = frozenset().union(*kernels.values())
    needs = {kernel: calls.reached_from([kernel]) & runtime for kernel in everyone}
    for kernel, own in needs.items():
        others = set().union(*(needs[other] for other in needs if other != kernel))
        yield KernelCost(
            calls.functions[kernel].name,
            sum(calls.functions[address].size for address in own - others),
            sum(calls.functions[address].size for address in own & others),
            tuple(name for name, used in kernels.items() if kernel in used),
        )


def stacks(
    elf: Elf, kernels: Mapping[str, Set[int]], runtime: Set[int], executor: Set[int]
) -> dict[str, int]:
    """Bytes of stack that an inference takes from the call of vmcu_invoke() or vmcu_push_row() on,
    by model; empty without debug information.

    `executor`: the functions that call kernels through pointers. `runtime`: those of kernels, which
    call through pointers the functions that kernels hand each other.
    """
    roots = [symbol.address for name in ROOTS if (symbol := elf.find(name)) is not None]
    if not elf.frames or not roots:
        return {}
    plain = Calls(elf, {})
    handed = frozenset().union(*(plain.taken_by(address) for address in runtime))
    result = {}
    for name, used in kernels.items():
        pointers = dict.fromkeys(runtime, handed) | dict.fromkeys(executor, frozenset(used))
        calls = Calls(elf, pointers)
        result[name] = max(calls.deepest(root) for root in roots)
    return result
