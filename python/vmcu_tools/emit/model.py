# SPDX-License-Identifier: Apache-2.0
"""One plan to one pair of C files.

`_check` makes sure that the tables can express the plan; the rest gathers plain values for the
two templates, which hold all of the C text that is not a constant's digits.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import PlanError, Problem, UserError
from ..graph import EXCHANGED, Port, RowField
from ..kernels.targets import named
from ..ops import Layer, kernel_of
from ..plan.plan import Placement, Plan, Step, on_stack, pool_scratch
from ..plan.pools import POOL_NUMBER
from ..plan.schedule import OUTPUT, in_one_piece, operand, splits_calls, stage_at
from ..plan.weights import digest_of, file_of, layouts_of
from .initialisers import Constants, rows_of
from .names import check_name
from .proof import prove
from .rows import FieldRow, IoRow, LayerRow, StageRow, TensorRow
from .schedule import Part, written
from .stream import StreamRow, stream_row
from .structs import (
    CHUNK,
    IO,
    LAYER,
    MODEL,
    PART,
    POOLS_BYTES,
    ROTATION_BYTES,
    STAGE,
    STREAM,
    STREAM_BYTES,
    TENSOR,
    WEIGHTS_BYTES,
)
from .text import comment, environment, string
from .workers import team_bytes, worker_words

WEIGHTS_SUFFIX = ".weights.bin"
UINT16_MAX = 2**16 - 1
UINT8_MAX = 2**8 - 1


@dataclass(frozen=True)
class Emitted:
    """C files by name. `weights_bytes` counts arrays (weights, biases, factors, softmax tables),
    `tables_bytes` everything else that a model keeps in flash on a 32-bit core. `weights`: the
    weights file by its name, if arrays are external; they are not in flash then."""

    files: dict[str, str]
    weights_bytes: int
    tables_bytes: int
    weights: dict[str, bytes] = field(default_factory=dict)

    @property
    def flash_bytes(self) -> int:
        """Counts the bytes of weights and tables."""
        return self.weights_bytes + self.tables_bytes

    @property
    def all_files(self) -> dict[str, str | bytes]:
        """The C files and the weights file."""
        return {**self.files, **self.weights}


def _flags(port: Port) -> str:
    flags = {
        "VMCU_IO_CHANNELS_FIRST": port.layout[1] == "c",
        "VMCU_IO_HALF_AWAY": port.half_away,
        "VMCU_IO_COLUMNS": port.layout in EXCHANGED.values(),
        "VMCU_IO_WIDE": port.is_wide,
    }
    return " | ".join(name for name, on in flags.items() if on)


def emit(plan: Plan, name: str, command: str = "") -> Emitted:
    """`<name>.c` and `<name>.h` of a plan, read back and proven, and their bytes of flash. command:
    makes these files again; it is said at their top.

    Raises PlanError where they would lose a byte or compute another, UserError for a model that
    tables cannot hold.
    """
    emitted = write_tables(plan, name, command)
    prove(emitted.files, name, plan, b"".join(emitted.weights.values()))
    return emitted


def write_tables(plan: Plan, name: str, command: str = "") -> Emitted:
    """The files of emit() before their proof."""
    check_name(name)
    _check(plan)
    return _Emitter(plan, name).run(command)


def _check(plan: Plan) -> None:
    """Raises UserError for a model that tables cannot hold and PlanError for a plan that the
    executor cannot run."""
    graph = plan.graph
    for name in plan.placements:
        tensor = graph.tensors[name]
        if max(tensor.shape) > UINT16_MAX:
            raise UserError(
                Problem(
                    f"tensor '{name}' has shape {tensor.shape}, the most along one axis is "
                    f"{UINT16_MAX}",
                    "reshape it or make it smaller",
                    graph.origin,
                )
            )
    wide = next((s.node for s in plan.steps if len(s.node.inputs) > UINT8_MAX), None)
    if wide is not None:
        reason = f"{len(wide.inputs)} inputs, the most is {UINT8_MAX}"
        raise UserError(Problem(reason, "split it", graph.origin, wide.name, wide.kind))
    if max(len(graph.inputs), len(graph.outputs)) > UINT8_MAX:
        raise UserError(Problem(f"more than {UINT8_MAX} inputs or outputs", file=graph.origin))
    if max(len(plan.placements), len(plan.steps)) > UINT16_MAX:
        raise UserError(Problem(f"more than {UINT16_MAX} tensors or layers", file=graph.origin))
    for number, steps in enumerate(plan.stages):
        if len(steps) > 1 and (number >= len(plan.progress) or any(s.descending for s in steps)):
            raise PlanError(f"stage {number} descends, or has no place for its progress")
    for name, placement in plan.placements.items():
        if placement.ring > plan.pool_of(placement.base).size:
            raise PlanError(f"the ring of tensor '{name}' goes around the pool more than once")
    for before, after in graph.state.updates:
        if plan.placements[before].base != plan.placements[after].base:
            raise PlanError(f"output '{after}' is not where input '{before}' is")
    inputs = () if plan.input_streamed else graph.held
    for port in (*inputs, *graph.outputs):
        _check_whole(plan, port)


def _check_whole(plan: Plan, port: Port) -> None:
    """Callers address inputs and outputs as one array, or, in a pool that rotates, row by row."""
    tensor = plan.graph.tensors[port.tensor]
    placement = plan.placements[port.tensor]
    circle = plan.pool_of(placement.base)
    start = circle.around(placement.base)
    whole = plan.graph.rows_at_once(port) * tensor.row_bytes
    around = start + whole > circle.stop and plan.rotation is None
    if placement.ring < whole or around:
        raise PlanError(f"graph input or output '{port.tensor}' is not one piece of the pool")


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def address(plan: Plan, at: int) -> int:
    """An address of a plan as tables have it: of several pools, the number of its pool in front."""
    circle = plan.pool_of(at)
    number = plan.pools.index(circle)
    return number << POOL_NUMBER | circle.around(at) - circle.start


def _scratch(plan: Plan, layer: Layer[Any], step: Step) -> str:
    """Returns the place of a layer's scratch: in the pool if the plan put it there, else on the
    stack."""
    if on_stack(layer):
        return "VMCU_SCRATCH_ON_STACK"
    if step.scratch_bytes < pool_scratch(layer):
        raise PlanError(f"step '{step.node.name}' has no room for its scratch")
    return str(address(plan, step.scratch))


def _rendered(values: Mapping[str, object], suffix: str) -> str:
    """One of the two files."""
    return environment().get_template(f"model.{suffix}.j2").render(values)


class _Emitter:
    def __init__(self, plan: Plan, name: str):
        self.plan = plan
        self.graph = plan.graph
        self.name = name
        self.constants = Constants(name)
        self.index = {name: number for number, name in enumerate(plan.tensors)}
        self.inputs: list[int] = []
        self.schedule = bytearray()
        self.parts: list[Part] = []
        self.stream: StreamRow | None = stream_row(plan)

    def run(self, command: str) -> Emitted:
        layers: list[LayerRow] = []
        stages = []
        weights, team = self.plan.weights, self.plan.team
        layouts = layouts_of(self.plan) if weights is not None else []
        for number, steps in enumerate(self.plan.stages):
            if weights is not None:
                chunk = weights.chunk_of(number)
                to = chunk.to if chunk is not None else 0
                self.constants.external = {k: to + at for k, at in layouts[number].offsets.items()}
            stages.append(self._stage(number, len(layers), steps))
            for step in steps:
                layers.append(self._layer(len(layers), step))
        maker = f"`{comment(command)}`" if command else "vmcu"
        values = {
            "name": self.name,
            "target": named(self.graph.target),
            "upper": self.name.upper(),
            "maker": maker + ", on random samples: not for use" * self.plan.model.notes.is_random,
            "pool_bytes": self.plan.ram_bytes - (team.scratch_bytes if team else 0),
            "circle": self.plan.pool_bytes,
            "rotation": self.plan.rotation,
            "regions": self.plan.regions,
            "weights": weights,
            "team": team,
            "workers": [rows_of(worker_words(its), 16) for its in team.entries] if team else [],
            "digests": [digest_of(layout.data) for layout in layouts],
            "definitions": self.constants.definitions,
            "tensors": [self._tensor(tensor) for tensor in self.index],
            "layer_inputs": rows_of([*map(str, self.inputs)], 12),
            "layers": layers,
            "stages": stages,
            "schedule": rows_of([*map(str, self.schedule)], 20),
            "parts": self.parts,
            "requantisers": sorted({r for s in self.plan.steps for r in s.node.op.requantisers}),
            "streamed": self.plan.input_streamed,
            "stream": self.stream,
            "elsewhere": bool(self.graph.elsewhere),
            "fields": [self._field(n, one) for n, one in enumerate(self.graph.state.row_fields)],
            "inputs": [self._io(f"INPUT{n}", p) for n, p in enumerate(self.graph.inputs)],
            "outputs": [self._io(f"OUTPUT{n}", p) for n, p in enumerate(self.graph.outputs)],
        }
        if self.stream is not None:
            # By all that is in its tables, whatever command made them.
            text = _rendered({**values, "maker": ""}, "c")
            values["stream"] = replace(self.stream, model=zlib.crc32(text.encode()))
        files = {f"{self.name}.{suffix}": _rendered(values, suffix) for suffix in ("c", "h")}
        binaries = {}
        if weights is not None:
            binaries[f"{self.name}{WEIGHTS_SUFFIX}"] = file_of(layouts)
        return Emitted(files, self.constants.weights_bytes, self._tables_bytes(), binaries)

    def _layer(self, number: int, step: Step) -> LayerRow:
        node, layer = step.node, step.bind(self.graph)
        kernel = kernel_of(self.graph, layer)
        shapes = " + ".join(_shape(self.graph.tensors[name].shape) for name in node.inputs)
        out = self.graph.tensors[node.outputs[0]]
        who, shape = (
            f"{number:02d} {node.kind} {comment(node.name)}",
            f"{shapes} -> {_shape(out.shape)}",
        )
        quantised = f"output scale {np.float32(out.scale)!s}, zero point {out.zero_point}"
        self.constants.about = who, f"{shape}, {quantised}"
        params = ""
        if kernel.params is not None:
            short = kernel.params.type.removeprefix("vmcu_").removesuffix("_params")
            params = "&" + self.constants.struct(f"{number:02d}_{short}", kernel.params)
        first_input = len(self.inputs)
        self.inputs += [self.index[name] for name in node.inputs]
        return LayerRow(
            comment=f"{who}: {shape}",
            kernel=kernel.symbol,
            params=params,
            first_input=first_input,
            input_count=len(node.inputs),
            descending=step.descending,
            output=self.index[node.outputs[0]],
            scratch=_scratch(self.plan, layer, step),
            rows=layer.height,
            columns=layer.columns,
            width=layer.width,
            splits=self._splits(step, layer),
        )

    def _tensor(self, name: str) -> TensorRow:
        placement = self.plan.placements.get(name) or Placement(name, 0, 0, 0, 0)
        height, width, channels = self.graph.tensors[name].shape
        return TensorRow(
            comment=f"{self.index[name]} {comment(name)}",
            base=address(self.plan, placement.base),
            ring=placement.ring,
            phase=placement.phase,
            height=height,
            width=width,
            channels=channels,
        )

    def _stage(self, number: int, first: int, steps: tuple[Step, ...]) -> StageRow:
        """A stage, after its schedule has been noted down."""
        stage = stage_at(self.plan, number)
        if stage is None:
            return StageRow(None, 0, 0, 0, first, len(steps))
        entries, parts = written(stage)
        at = len(self.schedule), len(self.parts)
        self.schedule += entries
        self.parts += parts
        progress = address(self.plan, self.plan.progress[number])
        return StageRow(at[0], at[1], len(parts), progress, first, len(steps), stage.taken)

    def _splits(self, step: Step, layer: Layer[Any]) -> int:
        """struct vmcu_layer's; a layer on its own computes whole rows, which nothing splits."""
        if step.columns is None:
            return 0
        splits = 0
        for index in in_one_piece(layer):
            if splits_calls(self.plan, layer, operand(layer, index)):
                splits |= 1 << (index - OUTPUT)
        return splits

    def _field(self, number: int, field: RowField) -> FieldRow:
        return FieldRow(
            macro=f"VMCU_MODEL_{self.name.upper()}_FIELD{number}",
            name=comment(field.port.name),
            dtype=f"int{8 * field.port.element_bytes}",
            first=field.first,
            bytes=field.tensor.bytes,
            scale=f"{np.float32(field.tensor.scale)}f",
            zero_point=field.tensor.zero_point,
        )

    def _io(self, label: str, port: Port) -> IoRow:
        tensor = self.graph.tensors[port.tensor]
        _, width, channels = tensor.shape
        height = self.graph.rows_at_once(port)
        return IoRow(
            macro=f"VMCU_MODEL_{self.name.upper()}_{label}",
            name=string(port.name),
            # The shortest digits that read back as the same float32.
            scale=f"{np.float32(tensor.scale)}f",
            zero_point=tensor.zero_point,
            table_zero=tensor.table_zero,
            element_bytes=port.element_bytes,
            flags=_flags(port),
            tensor=self.index[port.tensor],
            height=height,
            width=width,
            channels=channels,
            bytes=height * tensor.row_bytes,
        )

    def _tables_bytes(self) -> int:
        weights = self.plan.weights
        ports = (*self.graph.inputs, *self.graph.outputs)
        names = [self.name, *(port.name for port in ports)]
        return (
            self.constants.tables_bytes
            + MODEL.size
            + (ROTATION_BYTES if self.plan.rotation else 0)
            + (WEIGHTS_BYTES + CHUNK.size * len(weights.chunks) if weights is not None else 0)
            + (POOLS_BYTES if self.plan.regions else 0)
            + (team_bytes(self.plan.team) if self.plan.team else 0)
            + (STREAM_BYTES + STREAM.size + 4 * len(self.plan.stages[0]) if self.stream else 0)
            + TENSOR.size * len(self.index)
            + LAYER.size * len(self.plan.steps)
            + STAGE.size * len(self.plan.stages)
            + IO.size * len(ports)
            + PART.size * len(self.parts)
            + len(self.schedule)
            + 2 * len(self.inputs)
            + sum(len(name.encode("utf-8")) + 1 for name in names)
        )
