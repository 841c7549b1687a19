# SPDX-License-Identifier: Apache-2.0
"""`vmcu build` for Python: `vmcu_tools.load("model.onnx").plan(ram="64K").report()`."""

from __future__ import annotations

import argparse
import base64
import functools
import html
import io
import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from types import UnionType
from typing import TYPE_CHECKING, Any, TypedDict, Union, get_args, get_origin, get_type_hints

from .commands import build, models
from .commands.options import hop_option, model_options
from .commands.values import c_name
from .emit import Emitted, emit, write
from .errors import Problem, UserError
from .frontends import format_of
from .plan.plan import Plan
from .report import model as figures
from .report.build import print_report
from .report.model import ModelReport, StepReport
from .report.page import files
from .report.terminal import PIPE_COLUMNS, Terminal

if TYPE_CHECKING:
    from typing_extensions import Unpack

URI = "data:image/svg+xml;base64,"
# Bytes, or text as on the command line: "64K".
Size = int | str


class PlanOptions(TypedDict, total=False):
    """The options of `vmcu build`, by the same names; `vmcu build --help` explains them.

    ram: bytes or text such as "64K". external_input: the model reads its input at an address
    outside the pool. hop: rows; time: "h" or "w". state: ["IN:OUT"] or ["none"]. memory: text as on
    the command line, or a mapping: {"dtcm": "64K", "sram": "320K"}. extra_macs, tile_cost: percent.
    external_weights: text as on the command line. plan_seconds: seconds, from the call on.
    """

    ram: Size | None
    stream_input: bool
    external_input: bool
    hop: int
    time: str | None
    state: Sequence[str] | None
    memory: Mapping[str, Size] | str | None
    extra_macs: float
    tile_cost: float | None
    rotate: bool
    external_weights: str | None
    target: str | None
    plan_seconds: float | None


def load(
    path: str | Path, *, name: str | None = None, calibration: str | Path | None = None
) -> Model:
    """Returns the model of a file: an int8 .tflite or .onnx, or a float .onnx with `calibration`.

    name: the model's name in C; by default vmcu derives it from the file's name. calibration: an
    .npz file of samples, on which plan() quantises a float model.

    Raises UserError if the file is not a model file.
    """
    file = Path(path)
    format_of(file)
    called = models.name_of(file) if name is None else _converted("name", c_name, name)
    return Model(file, called, None if calibration is None else Path(calibration))


@dataclass(frozen=True)
class Model:
    """A model file and the model's name in C."""

    path: Path
    name: str
    calibration: Path | None = None

    @functools.cached_property
    def _int8(self) -> Path:
        """The int8 file. Quantises a float model once for all plans."""
        given = {"model": self.path, "calibration": self.calibration}
        return models.quantised(_arguments(given))

    def plan(self, **options: Unpack[PlanOptions]) -> ModelPlan:
        """Plans the model and proves the plan by a replay.

        Raises UserError if the model has an unsupported operator, if the pool does not fit, or if
        options cannot be combined; TypeError for an unknown option or a value of another type.
        """
        begun = monotonic()
        kinds = get_type_hints(PlanOptions)
        for option, value in options.items():
            if option not in kinds:
                raise TypeError(f"plan() got an unexpected keyword argument '{option}'")
            if not _is(value, kinds[option]):
                kind = PlanOptions.__annotations__[option].__forward_arg__
                raise TypeError(f"plan(): {option} is {value!r}, not of type {kind}")
        given: dict[str, object] = {"model": self.path, "calibration": self.calibration, **options}
        memory = options.get("memory")
        if isinstance(memory, Mapping):
            given["memory"] = ",".join(f"{one}={size}" for one, size in memory.items())
        if (state := options.get("state")) is not None:
            # As the parser has it.
            given["state"] = list(state)
        for count in ("hop", "extra_macs"):
            given[count] = given.get(count) or None
        asked = _arguments(given)
        int8 = argparse.Namespace(**{**vars(asked), "model": self._int8, "calibration": None})
        plan = models.planned(int8, begun, choices=True)
        emitted = emit(plan, self.name, build.command_line(asked, self.name))
        return ModelPlan(self.name, plan, emitted)


def _arguments(given: Mapping[str, object]) -> argparse.Namespace:
    """The parsed arguments of the equivalent `vmcu build` call."""
    parser = argparse.ArgumentParser(parents=[model_options()], add_help=False)
    hop_option(parser)
    asked = parser.parse_args(["model"])
    asked.model = given["model"]
    known = {action.dest: action for action in parser._actions}
    for option, value in given.items():
        action = known[option]
        if value is None or option == "model":
            continue
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(action.choices)
            reason = f"{option}: there is no '{value}'"
            raise UserError(Problem(reason, f"choose one of: {choices}"))
        if callable(action.type) and not isinstance(value, Path):
            value = _converted(option, action.type, value)
        setattr(asked, option, value)
    return asked


def _is(value: object, kind: Any) -> bool:
    """Whether a value is of a type of PlanOptions. A bool is no number, a text no sequence."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, part) for part in parts)
    if isinstance(value, bool) or kind is bool:
        return kind is bool and isinstance(value, bool)
    if not isinstance(value, {int: numbers.Integral, float: numbers.Real}.get(kind, origin)):
        return False
    if isinstance(value, Mapping):
        return all(_is(k, parts[0]) and _is(v, parts[1]) for k, v in value.items())
    return not parts or (not isinstance(value, str) and all(_is(one, parts[0]) for one in value))


def _converted(option: str, convert: Any, value: object) -> Any:
    """Converts a value as the command line does. Raises UserError for an invalid value."""
    try:
        return convert(str(value))
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UserError(Problem(f"{option}: {error}")) from None


@dataclass(frozen=True, repr=False)
class ModelPlan:
    """A proven plan and its C tables. `plan` lists the offset of every tensor."""

    name: str
    plan: Plan
    emitted: Emitted

    def __repr__(self) -> str:
        ram = self.plan.ram_bytes + self.plan.buffer_bytes
        return f"<plan of {self.name}: {ram:,} bytes of RAM>"

    def write(self, folder: str | Path) -> list[Path]:
        """Writes NAME.c and NAME.h, as `vmcu build -o` does. Returns their paths."""
        return list(write(self.emitted.all_files, Path(folder)))

    def report(self) -> Report:
        """Returns RAM, flash and computation of the plan."""
        sizes = self.emitted.tables_bytes, self.emitted.weights_bytes
        return Report(self.plan, figures.report(self.plan, self.name, *sizes))


@dataclass(frozen=True, repr=False)
class Report:
    """RAM, flash and computation of a plan. A notebook displays the map of the pool. print() prints
    the report of `vmcu build`. `figures` contains the same values as --json."""

    plan: Plan
    figures: ModelReport

    @property
    def bytes(self) -> int:
        """Bytes of the pool."""
        return self.figures.pool_bytes

    @property
    def flash_bytes(self) -> int:
        """Bytes of weights and tables, without code."""
        return self.figures.weights_bytes + self.figures.tables_bytes

    @property
    def macs(self) -> int:
        """Multiply-accumulates of an inference, or of a hop, without `macs_extra`."""
        return self.figures.macs

    @property
    def macs_extra(self) -> int:
        """Additional multiply-accumulates for recomputation, which saves RAM."""
        return self.figures.macs_extra

    @property
    def layers(self) -> tuple[StepReport, ...]:
        """The layers in execution order: name, op, pool_bytes, macs, weights_bytes, cycles."""
        return self.figures.steps

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes and warnings of `vmcu build`."""
        return self.figures.notes

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures of `vmcu build --json`."""
        return asdict(self.figures)

    def html(self) -> str:
        """Returns the page of `vmcu build --html`, which compares the plan with other planners."""
        return files.page(self.plan, self.figures).decode()

    def svg(self) -> str:
        """Returns the map of the pool."""
        return files.svg_picture(self.plan, self.figures).decode()

    def save(self, path: str | Path) -> Path:
        """Writes the page (.html), the map (.svg, or .png with Pillow) or the figures (.json)."""
        file = Path(path)
        kinds = {
            ".html": lambda: self.html().encode(),
            ".svg": lambda: self.svg().encode(),
            ".png": lambda: files.png_picture(self.plan, self.figures),
            ".json": lambda: (json.dumps(self.as_dict(), indent=2) + "\n").encode(),
        }
        if file.suffix not in kinds:
            reason = f"no report is a '{file.suffix}' file"
            raise UserError(Problem(reason, f"choose one of: {', '.join(kinds)}", str(file)))
        file.write_bytes(kinds[file.suffix]())
        return file

    def __repr__(self) -> str:
        return f"<{self._summary()}>"

    def _summary(self) -> str:
        ram, flash = self.figures.pool_bytes, self.flash_bytes
        words = f"{ram:,} bytes of RAM, {flash:,} of flash, {self.macs:,} MACs"
        return f"{self.figures.model}: {words}"

    def __str__(self) -> str:
        out = io.StringIO()
        print_report(self.figures, Terminal(file=out, width=PIPE_COLUMNS), every=True)
        return out.getvalue()

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        """The map as an image, so that the notebook's style does not apply, and the figures."""
        picture = base64.b64encode(self.svg().encode()).decode()
        said = html.escape(self._summary())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        image = f'<img alt="{said}" style="max-width:100%" src="{URI}{picture}">'
        return f"{image}<p>{said}</p>" + (f"<ul>{notes}</ul>" if notes else "")
