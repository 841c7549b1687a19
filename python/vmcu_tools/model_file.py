# SPDX-License-Identifier: Apache-2.0
"""A model file as it is compiled: its C name, its int8 form, its plan, the command that made it."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from .compiler import compile_model, rows_of_call
from .emit.names import hides_header
from .errors import Problem, UserError, stands_for
from .frontends import format_of
from .graph import EXCHANGED, Port
from .ops import bias_warnings
from .passes.state.copies import describe_copies
from .passes.state.options import NO_STATES
from .passes.state.options import STATE_OPTION as STATE
from .plan.plan import Plan
from .planner.options import CompileOptions, check_exclusions
from .quantize.ranges import RANDOM_NOTE, is_random


def name_of(path: Path) -> str:
    """A C name made from a file's: 'mcunet-vww-5fps.tflite' gives mcunet_vww_5fps, and
    'string.onnx' model_string, whose header hides none of C's."""
    # A file's name is bytes, of which every locale makes the same name.
    stem = os.fsencode(path.stem).decode("utf-8", "replace")
    name = re.sub(r"\W", "_", stem, flags=re.ASCII).lower()
    return name if name[:1].isalpha() and not hides_header(name) else f"model_{name}"


def quantised(
    model: Path,
    samples: Path | None,
    method: str = "minmax",
    per_tensor: bool = False,
    constants: Sequence[str] = (),
) -> Path:
    """The int8 file of a model: itself without samples, else a file that exists as long as the
    program runs."""
    if samples is None:
        return model
    format_of(model)
    folder = Path(tempfile.mkdtemp(prefix="vmcu-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / f"{model.stem}.onnx"
    stands_for(str(target), str(model))
    from .quantize import calibration

    read, given = calibration.read_calibration(model, samples, constants)
    calibration.quantize(read, target, given, method, not per_tensor)
    return target


def planned(model: Path, options: CompileOptions, layout: str = "file") -> Plan:
    """The plan of an int8 file, with notes on the file. options: as checked() returns them.
    layout: "nhwc" for inputs with the channels last, "file" for those of the file."""
    plan = compile_model(model, options)
    removed = "it is a float constant; read its values from the model file"
    notes = (
        *((RANDOM_NOTE,) if plan.model.notes.is_random else ()),
        *plan.notes,
        *(f"warning: {w.node} ({w.op}): {w.reason}" for w in bias_warnings(plan.model)),
        *_fed(options, plan),
        *describe_copies(plan.model, plan.graph),
        *_columns(plan),
        *(f"removed output '{name}': {removed}" for name in plan.model.notes.dropped),
    )
    return with_layout(replace(plan, notes=notes), layout)


def checked(model: Path, options: CompileOptions, own: Collection[str] = ()) -> CompileOptions:
    """The options, with the hop of a file that keeps state. own: what a command has beside them.
    Raises UserError for options that exclude each other."""
    stateful = ""
    if not options.hop:
        options = replace(options, hop=rows_of_call(model, options.state))
        if options.hop:
            stateful = "leave out that option"
            stateful += f", or say {STATE} {NO_STATES}" if format_of(model) == "onnx" else ""
    if options.time and (stateful or not options.hop):
        reason = "--time requires --hop"
        if options.hop:
            reason = (
                "a model that keeps state cannot be combined with --time: the file defines its rows"
            )
        raise UserError(Problem(reason, "leave out --time", str(model)))
    check_exclusions(options.given() | {*own}, model, stateful)
    return options


def _fed(options: CompileOptions, plan: Plan) -> tuple[str, ...]:
    """What a person should know of states that are inputs and outputs of the file."""
    by_name = (
        f" (matching names; {STATE} {NO_STATES} turns this off)" if options.state is None else ""
    )
    return tuple(
        f"state: output '{behind}' is fed back as input '{ahead}'{by_name}"
        for ahead, behind in plan.model.state.pairs
    )


def _columns(plan: Plan) -> tuple[str, ...]:
    """A note for inputs whose time is not the file's H."""
    return tuple(
        f"time is axis W of '{port.name}': vmcu exchanges rows and columns of all images, and a "
        "pushed row is a column of the file, from top to bottom, channels last"
        for port in plan.graph.inputs
        if port.layout in EXCHANGED.values()
    )


def with_layout(plan: Plan, layout: str) -> Plan:
    """The plan with inputs whose channels come last, if `layout` is "nhwc"."""
    if layout != "nhwc":
        return plan
    ports = tuple(_channels_last(port) for port in plan.graph.inputs)
    return replace(plan, graph=replace(plan.graph, inputs=ports))


def _channels_last(port: Port) -> Port:
    last = {"nchw": "nhwc", "ncwh": "nwhc"}
    if port.layout not in last:
        return port
    batch, channels, *spatial = port.file_shape
    return replace(port, layout=last[port.layout], file_shape=(batch, *spatial, channels))


def command_line(model: Path, name: str, words: Iterable[str]) -> str:
    """The command that makes the same tables again, in the folder that the model is in. words: its
    options."""
    return shlex.join(["vmcu", "build", as_argument(Path(model.name)), "--name", name, *words])


def as_argument(path: Path) -> str:
    """A path that the parser takes as one, whatever it begins with."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def relative(path: Path, model: Path) -> str:
    """A path from the folder that a model is in, so that it does not depend on where that is; the
    word for random samples as it is."""
    if is_random(path):
        return str(path)
    return Path(os.path.relpath(path, model.parent)).as_posix()
