# SPDX-License-Identifier: Apache-2.0
"""The model that a command is given, as it shall be worked on: a file, a plan, a C name."""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shutil
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path

from ..compiler import compile_model, rows_of_call
from ..emit.names import hides_header
from ..errors import Problem, UserError, stands_for
from ..frontends import format_of
from ..graph import EXCHANGED, Port
from ..ops import bias_warnings
from ..passes.fed_back import NONE
from ..passes.fed_back import STATE_OPTION as STATE
from ..plan.plan import Plan
from ..planner.anytime import INTERRUPTED
from ..planner.options import CompileOptions, check_exclusions


def name_of(path: Path) -> str:
    """A C name made from a file's: 'mcunet-vww-5fps.tflite' gives mcunet_vww_5fps, and
    'string.onnx' model_string, whose header hides none of C's."""
    # A file's name is bytes, of which every locale makes the same name.
    stem = os.fsencode(path.stem).decode("utf-8", "replace")
    name = re.sub(r"\W", "_", stem, flags=re.ASCII).lower()
    return name if name[:1].isalpha() and not hides_header(name) else f"model_{name}"


def quantised(args: argparse.Namespace) -> Path:
    """The model that a command shall work on: with calibration data, an int8 file made from it
    that lives as long as the program."""
    if getattr(args, "calibration", None) is None:
        given: Path = args.model
        return given
    format_of(args.model)
    folder = Path(tempfile.mkdtemp(prefix="vmcu-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target: Path = folder / args.model.name
    stands_for(str(target), str(args.model))
    from ..quantize import calibration

    samples = calibration.read_samples(args.model, args.calibration)
    method, per_channel = args.calibration_method, not args.per_tensor
    calibration.quantize(args.model, target, samples, method, per_channel)
    return target


def compiled(args: argparse.Namespace, choices: bool = False) -> Plan:
    """The plan that a command's model and planner options ask for. What is doubtful in the model
    goes to stderr and among the plan's notes. choices: as CompileOptions has it."""
    plan = planned(args, args.begun, choices)
    if INTERRUPTED in plan.notes and args.command != "build":
        # Only `vmcu build` has a use for the best plan so far; others would go on for long.
        raise KeyboardInterrupt
    for warning in bias_warnings(plan.model):
        print(f"warning: {warning}", file=sys.stderr)
    return plan


def planned(args: argparse.Namespace, begun: float, choices: bool = False) -> Plan:
    """The same without a word. begun: when --plan-seconds began, of time.monotonic()."""
    check_options(args)
    plan = compile_model(quantised(args), options_of(args, choices), begun)
    doubts = bias_warnings(plan.model)
    notes = tuple(f"warning: {w.node} ({w.op}): {w.reason}" for w in doubts)
    plan = replace(
        plan, notes=(*plan.notes, *notes, *_fed(args, plan), *_columns(plan), *_dropped(plan))
    )
    return with_layout(plan, getattr(args, "input_layout", "file"))


def options_of(args: argparse.Namespace, choices: bool = False) -> CompileOptions:
    """What a command's arguments ask for; options that the command lacks have their default."""
    values = vars(args)
    given = {f.name: values[f.name] for f in fields(CompileOptions) if f.name in values}
    machine = values.get("on")
    loads, family = _machine_of(machine) if machine else (False, None)
    contained = values.get("format", "c") == "container" or loads
    given["target"] = given.get("target") or family
    return replace(CompileOptions(**given), container=contained, choices=choices)


def _machine_of(name: str) -> tuple[bool, str | None]:
    """Whether a machine loads containers, and the target whose layout suits it best."""
    from vmcu_bench.runners import family_of
    from vmcu_bench.runners.compiled import LOADING

    return name.endswith(LOADING), family_of(name)


def _fed(args: argparse.Namespace, plan: Plan) -> tuple[str, ...]:
    """What a person should know of states that are inputs and outputs of the file."""
    named = options_of(args).state is None
    by_name = f" (matching names; {STATE} {NONE} turns this off)" if named else ""
    return tuple(
        f"state: output '{behind}' is fed back as input '{ahead}'{by_name}"
        for ahead, behind in plan.model.fed
    )


def _dropped(plan: Plan) -> tuple[str, ...]:
    """Notes on outputs that vmcu does not write."""
    return tuple(
        f"removed output '{name}': it is a float constant; read its values from the model file"
        for name in plan.model.dropped
    )


def _columns(plan: Plan) -> tuple[str, ...]:
    """A note for inputs whose time is not the file's H."""
    return tuple(
        f"time is axis W of '{port.name}': vmcu exchanges rows and columns of all images, and a "
        "pushed row is a column of the file, from top to bottom, channels last"
        for port in plan.graph.inputs
        if port.layout in EXCHANGED.values()
    )


def check_options(args: argparse.Namespace) -> None:
    """Raises UserError for options that exclude each other. A file that keeps its state has a hop,
    which becomes that of `args`."""
    stateful = ""
    if hasattr(args, "hop") and not args.hop:
        args.hop = rows_of_call(args.model, options_of(args).state)
        if args.hop:
            stateful = "leave out that option"
            stateful += f", or say {STATE} {NONE}" if format_of(args.model) == "onnx" else ""
    if getattr(args, "time", None) and (stateful or not args.hop):
        reason = "--time requires --hop"
        if args.hop:
            reason = (
                "a model that keeps state cannot be combined with --time: the file defines its rows"
            )
        raise UserError(Problem(reason, "leave out --time", str(args.model)))
    own = {name for name in ("pareto", "output") if getattr(args, name, None)}
    check_exclusions(options_of(args).given() | own, args.model, stateful)


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
