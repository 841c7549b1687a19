# SPDX-License-Identifier: Apache-2.0
"""Three ways to learn which pool bytes a kernel touches, and when: its access relation enumerated
point by point, its program interpreted, and its C with every load and store logged."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_bench.runners.host import NATIVE, HostRunner
from vmcu_lab.distances.relation import Access, relation
from vmcu_tools import paths
from vmcu_tools.emit import emit
from vmcu_tools.graph import Shape
from vmcu_tools.kernels.language.evaluate import Machine, run
from vmcu_tools.kernels.language.ir import Program
from vmcu_tools.ops import Layer, ProgramLayer
from vmcu_tools.plan.plan import Plan

LOG_SOURCE = Path(__file__).parents[1] / "c" / "access" / "access_log.c"
LOG_FILE = "accesses.bin"
OUTPUT = -1


@dataclass(frozen=True, eq=False)
class Touched:
    """Elements of tensors in the order in which they are touched. Those that one execution of an
    instruction touches share a group; `tensor` is an input's index or OUTPUT; `where` (n, 3) are
    rows, pixels and channels."""

    group: np.ndarray
    write: np.ndarray
    tensor: np.ndarray
    where: np.ndarray

    def table(self) -> np.ndarray:
        return np.column_stack([self.group, self.write, self.tensor, self.where])


def machine_of(layer: ProgramLayer, data: Sequence[np.ndarray]) -> Machine:
    binding = layer.binding
    views = [x.reshape(binding.view(t)) for x, t in zip(data, layer.ins, strict=True)]
    names = binding.names(layer.ins, layer.out, layer.descending)
    return Machine(names, views, np.zeros(layer.out.shape, np.int8), binding.stream)


def interpret(
    layer: ProgramLayer, data: Sequence[np.ndarray], program: Program | None = None
) -> Machine:
    """The machine after all output rows."""
    machine = machine_of(layer, data)
    for number in range(layer.height):
        run(program or layer.binding.program, machine, layer.turn(number))
    return machine


def touched_by(machine: Machine) -> Touched:
    """What the interpreted program touched."""
    entries = [entry for entry in machine.log if entry[2].size]
    counts = [entry[2].shape[1] for entry in entries]
    tensors = [OUTPUT if tensor == "output" else tensor for _, tensor, _ in entries]
    return Touched(
        np.repeat(np.arange(len(entries)), counts),
        np.repeat([kind == "w" for kind, _, _ in entries], counts),
        np.repeat(tensors, counts),
        np.concatenate([where.T for _, _, where in entries]),
    )


def relation_of(layer: ProgramLayer) -> list[Access]:
    binding = layer.binding
    names = binding.names(layer.ins, layer.out, layer.descending)
    return relation(binding.program, names, shapes(layer), layer.height, layer.descending)


def shapes(layer: Layer) -> dict[int | str, Shape]:
    """Of inputs as the kernel sees them, and of the output."""
    flat = isinstance(layer, ProgramLayer) and layer.binding.flat
    views = ((t.shape[0], 1, t.row_bytes) if flat else t.shape for t in layer.ins)
    return {**dict(enumerate(views)), "output": layer.out.shape}


def describe(layer: Layer) -> str:
    direction = "descending " if layer.descending else ""
    ins = ", ".join(str(tensor.shape) for tensor in layer.ins)
    return f"{direction}{layer.node.kind} '{layer.node.name}' {ins} -> {layer.out.shape}"


def points(access: Access) -> np.ndarray:
    """int (points, n): all i with H i + B < 0, in lexicographic order."""
    size = access.domain_h.shape[1]
    lines = list(zip(access.domain_h, access.domain_b, strict=True))
    bounds = [
        min(-b for row, b in lines if (row == unit).all()) for unit in np.eye(size, dtype=int)
    ]
    box = np.indices(bounds).reshape(size, -1).T
    return box[(box @ access.domain_h.T + access.domain_b < 0).all(axis=1)]


def enumerate_relation(accesses: Sequence[Access]) -> Touched:
    """Every access in the order of the schedules."""
    depth = max(len(access.schedule) for access in accesses)
    keys, parts = [], []
    for number, access in enumerate(accesses):
        i = points(access)
        when = np.full((len(i), depth + 1), -1)
        for column, step in enumerate(access.schedule):
            when[:, column] = i[:, step] if step >= 0 else ~step
        # Operands of one instruction share their place in the schedule.
        when[:, depth] = number
        keys.append(when)
        fixed = [not access.reads, OUTPUT if access.tensor == "output" else access.tensor]
        u = i @ access.access_a.T + access.access_v
        parts.append(np.column_stack([np.tile(fixed, (len(i), 1)), u]))
    when, table = np.concatenate(keys), np.concatenate(parts)
    order = np.lexsort(when.T[::-1])
    when, table = when[order], table[order]
    new = np.concatenate([[False], (np.diff(when, axis=0) != 0).any(axis=1)])
    return Touched(np.cumsum(new), table[:, 0].astype(bool), table[:, 1], table[:, 2:])


@dataclass(frozen=True, eq=False)
class Timeline:
    """What is touched at each tick: sorted int (n, 3) of tick, tensor, byte. A tick is a store;
    loads belong to the tick of the next one."""

    reads: np.ndarray
    writes: np.ndarray

    @staticmethod
    def of(tick: np.ndarray, write: np.ndarray, tensor: np.ndarray, byte: np.ndarray) -> Timeline:
        table = np.column_stack([tick, tensor, byte])
        return Timeline(np.unique(table[~write], axis=0), np.unique(table[write], axis=0))


def timeline(layer: ProgramLayer, touched: Touched) -> Timeline:
    """Counts the stores that store anything."""
    byte = np.zeros(len(touched.group), np.int64)
    for tensor, shape in shapes(layer).items():
        pick = touched.tensor == (OUTPUT if tensor == "output" else tensor)
        byte[pick] = np.ravel_multi_index(tuple(touched.where[pick].T), shape)
    first = np.unique(touched.group, return_index=True)[1]
    is_store = touched.write[first]
    tick = (np.cumsum(is_store) - is_store)[touched.group]
    return Timeline.of(tick, touched.write, touched.tensor, byte)


class LoggingHost(HostRunner):
    """This computer, with the runtime's accesses to the pool logged."""

    def sources(self) -> list[Path]:
        return [*super().sources(), LOG_SOURCE]

    def link_flags(self) -> list[str]:
        return [f"-Wl,--wrap={name}" for name in ("vmcu_invoke", "memcpy", "memmove", "memset")]

    def gcc(self, arguments: Sequence[str], folder: Path) -> None:
        # The runtime alone: the log itself and what links it know nothing of the sanitizer. Copies
        # must be calls, as the sanitizer does not see those that the compiler expands.
        logged = ["-fsanitize=thread", "-fno-builtin", "-D__builtin_memcpy=memcpy"]
        logged += ["-include", "string.h"]
        compiled = any(Path(one).is_relative_to(paths.runtime()) for one in arguments)
        super().gcc([*(logged if compiled else []), *arguments], folder)


LOGGING = LoggingHost("host:logging", "", NATIVE)


def log_c(plan: Plan, sample: Sequence[np.ndarray]) -> np.ndarray:
    """One inference: the bytes of the pool that C touched in order, int (n, 2) of offset and
    whether it was written."""
    with tempfile.TemporaryDirectory(prefix="vmcu-log-") as name:
        folder = Path(name)
        image = LOGGING.build(emit(plan, MODEL_NAME).files, MODEL_NAME, folder)
        LOGGING.execute(image, plan, [sample])
        record = np.dtype([("offset", np.uint32), ("size", np.uint16), ("write", np.uint16)])
        log = np.fromfile(folder / LOG_FILE, record)
    size = log["size"].astype(np.int64)
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return np.column_stack([np.repeat(log["offset"], size) + within, np.repeat(log["write"], size)])


def timeline_of_c(plan: Plan, layer: Layer, log: np.ndarray) -> Timeline:
    """C's accesses to a layer's tensors, which must be whole and nobody else's. A tick is over when
    a byte of a later one is written; fails where a byte is written out of turn, or read after the
    planner lets it go."""
    tensor, byte = np.full(len(log), -2), np.zeros(len(log), np.int64)
    for key, t in [*enumerate(layer.ins), (OUTPUT, layer.out)]:
        at = log[:, 0] - plan.placements[t.name].base
        pick = (at >= 0) & (at < t.bytes)
        tensor[pick], byte[pick] = key, at[pick]
    mine = tensor >= OUTPUT
    tensor, byte, write = tensor[mine], byte[mine], log[mine, 1].astype(bool)
    assert (write == (tensor == OUTPUT)).all(), f"{describe(layer)} writes its input"
    planned = layer.writes().ravel()
    ticks = planned[byte[write]]
    assert (np.diff(ticks) >= 0).all(), f"{describe(layer)} writes out of turn"
    # The tick of the last write before each access.
    done = np.concatenate([[-1], ticks])[np.cumsum(write)]
    for index in range(len(layer.ins)):
        reads = tensor == index
        late = layer.last_reads(index).ravel()[byte[reads]] <= done[reads]
        assert not late.any(), (
            f"{describe(layer)} reads byte {byte[reads][late][0]} of {index} late"
        )
    # Planners may count stores that store nothing.
    number = np.concatenate([[-1], np.searchsorted(np.unique(planned), ticks)])[np.cumsum(write)]
    return Timeline.of(number + ~write, write, tensor, byte)
