# SPDX-License-Identifier: Apache-2.0
"""`vmcu build` for Python: `vmcu_tools.load("model.onnx").plan(ram="64K").report()`."""

from __future__ import annotations

import argparse
import base64
import functools
import html
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from . import model_file
from .emit import Emitted, emit, write
from .errors import Problem, UserError
from .frontends import format_of
from .plan.plan import Plan
from .planner.options import CompileOptions
from .planner.options import PlanOptions as PlanOptions
from .report import model as figures
from .report.build import print_report
from .report.model import ModelReport, StepReport
from .report.page import files
from .report.terminal import PIPE_COLUMNS, Terminal
from .values import c_name

URI = "data:image/svg+xml;base64,"
Keywords = ParamSpec("Keywords")


def load(
    path: str | Path, *, name: str | None = None, calibration: str | Path | None = None
) -> Model:
    """Returns the model of a file: an int8 .tflite or .onnx, or a float one with `calibration`.

    name: the model's name in C; by default vmcu derives it from the file's name. calibration: an
    .npz file or a folder of samples, on which plan() quantises a float model, or "random", which is
    for RAM figures alone.

    Raises UserError if the file is not a model file.
    """
    file = Path(path)
    format_of(file)
    called = model_file.name_of(file) if name is None else _c_name(name)
    return Model(file, called, None if calibration is None else Path(calibration))


def _c_name(name: str) -> str:
    try:
        return c_name(name)
    except argparse.ArgumentTypeError as error:
        raise UserError(Problem(f"name: {error}")) from None


def _keywords_of(
    options: Callable[Keywords, PlanOptions],
) -> Callable[
    [Callable[[Model, PlanOptions], ModelPlan]], Callable[Concatenate[Model, Keywords], ModelPlan]
]:
    """Gives a method the keywords of a dataclass, which it gets as one value."""

    def decorated(
        method: Callable[[Model, PlanOptions], ModelPlan],
    ) -> Callable[Concatenate[Model, Keywords], ModelPlan]:
        def called(model: Model, /, *args: Keywords.args, **named: Keywords.kwargs) -> ModelPlan:
            return method(model, options(*args, **named))

        called.__name__, called.__doc__ = method.__name__, method.__doc__
        return called

    return decorated


@dataclass(frozen=True)
class Model:
    """A model file and the model's name in C."""

    path: Path
    name: str
    calibration: Path | None = None

    @functools.cached_property
    def _int8(self) -> Path:
        """The int8 file. Quantises a float model once for all plans."""
        return model_file.quantised(self.path, self.calibration)

    @_keywords_of(PlanOptions)
    def plan(self, options: PlanOptions) -> ModelPlan:
        """Plans the model and proves the plan by a replay. Keywords: the fields of PlanOptions.

        Raises UserError if the model has an unsupported operator, if the pool does not fit, or if
        options cannot be combined; TypeError for an unknown option or a value of another type.
        """
        asked = model_file.checked(self.path, CompileOptions(**vars(options), choices=True))
        words = [*asked.words()]
        if self.calibration is not None:
            words += ["--calibration", model_file.relative(self.calibration, self.path)]
        plan = model_file.planned(self._int8, asked)
        emitted = emit(plan, self.name, model_file.command_line(self.path, self.name, words))
        return ModelPlan(self.name, plan, emitted)


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
