# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import Problem, UserError
from ..planner.keyword import options_of
from ..planner.options import PlanOptions, spelled
from ..quantize.ranges import METHODS
from ..values import c_name, count, machine, picture, serial_flash, word
from .parser import MACHINE, MODEL, OUTPUT, QUANTISATION, titled

# argparse gives it no public name.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Action = Callable[[argparse.Namespace], int]

# What commands take that run a model.
RUNNABLE = ".tflite or .onnx, or a container, .vmcu"
# Options of a stream: the time axis, and which inputs are outputs of the call before.
STREAM = ("state", "time")
REPEATED = "state"


def refuse_with(others: Mapping[str, bool], reason: str, remedy: str, model: Path | None) -> None:
    """Raises UserError for the first option that is given and cannot be combined; `reason` has {}
    where it is named."""
    refused = next((option for option, there in others.items() if there), None)
    if refused is not None:
        raise UserError(Problem(reason.format(refused), remedy, str(model)))


def changed(args: argparse.Namespace, usual: Mapping[str, object]) -> dict[str, bool]:
    """Maps each option to True if its value is not the `usual` one, by destination; for
    refuse_with()."""
    return {spelled(name): getattr(args, name) != usual[name] for name in usual}


def int8_model(
    parser: argparse.ArgumentParser, otherwise: str = "", kinds: str = ".tflite or .onnx"
) -> None:
    """Adds the model's file; `otherwise`: the default, if the file may be left out."""
    parser.add_argument(
        "model",
        type=Path,
        nargs="?" if otherwise else None,
        metavar="MODEL",
        help=f"int8 model, {kinds}" + (f" (default: {otherwise})" if otherwise else ""),
    )


def json_option(parser: argparse.ArgumentParser, what: str = "the figures") -> None:
    titled(parser, OUTPUT).add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help=f"write {what} as JSON; -: to standard output, and reports to standard error",
    )


def report_option(parser: argparse.ArgumentParser) -> None:
    titled(parser, OUTPUT).add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the report into FILE and print three lines: RAM, flash, and time with FILE",
    )


def picture_option(parser: argparse.ArgumentParser, what: str) -> None:
    titled(parser, OUTPUT).add_argument(
        "--picture", type=picture, metavar="FILE", help=f"write {what}"
    )


def all_option(parser: argparse.ArgumentParser, what: str) -> None:
    titled(parser, OUTPUT).add_argument(
        "--all", action="store_true", help=f"list all layers, not only those with the most {what}"
    )


def quiet_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="print only warnings and errors")


def border_options(parser: argparse.ArgumentParser) -> None:
    """Adds the layout of the files of inputs and outputs."""
    titled(parser, MODEL).add_argument(
        "--input-layout",
        choices=("file", "nhwc"),
        default="file",
        help="axes of inputs given in real numbers: as in the model file, or channels last "
        "(default file); int8 inputs of the C API always have channels last",
    )


def calibration_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that quantise a float model."""
    group = titled(parser, QUANTISATION)
    group.add_argument(
        "--calibration",
        type=Path,
        metavar="DATA",
        help="quantise a float model with samples: an array (N, ...) per input in .npz, a folder, "
        "or random",
    )
    group.add_argument(
        "--calibration-method",
        choices=METHODS,
        default="minmax",
        help="how to choose ranges from the samples (default minmax)",
    )
    group.add_argument(
        "--per-tensor",
        action="store_true",
        help="use one scale for all weights of a layer, not one per output channel",
    )
    group.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="fix an input of a float model: mask=1, ids=0,3,5 or ids=0..15; repeatable",
    )


def plan_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options of PlanOptions by name."""
    known = options_of(PlanOptions)
    for name in names:
        option = known[name]
        how: dict[str, Any] = {"default": option.default, "help": option.help}
        if option.default is False:
            how["action"] = "store_true"
        elif option.choices:
            how["choices"] = option.choices
        else:
            how |= {"metavar": option.metavar, "type": option.read or str}
        if name == REPEATED:
            how["action"] = "append"
        titled(parser, option.title).add_argument(spelled(name), **how)


def planner_options() -> argparse.ArgumentParser:
    """A parser with the options of PlanOptions: a parent of the parsers of commands that plan."""
    parser = argparse.ArgumentParser(add_help=False)
    names = (name for name in options_of(PlanOptions) if name not in ("hop", *STREAM))
    plan_options(parser, *names)
    return parser


def serial_flash_option(parser: argparse.ArgumentParser) -> None:
    """The flash that a board's code and constants are in."""
    titled(parser, MACHINE).add_argument(
        "--flash-bus",
        type=serial_flash,
        metavar="BUS:RATE,...",
        help="with --board: code and constants are in serial flash behind a cache, for example "
        "qspi:40MB/s,cache=16K,line=8 (default: cache=16K,line=32)",
    )


def seed_option(parser: argparse._ActionsContainer, what: str) -> None:
    parser.add_argument("--seed", type=count, default=0, help=f"seed of {what} (default 0)")


def name_option(parser: argparse.ArgumentParser) -> None:
    """Adds the model's name in C; its tables store the name, so it counts in flash."""
    titled(parser, OUTPUT).add_argument(
        "--name", type=c_name, help="C name of the model (default: from the file name)"
    )


def release_options(parser: argparse.ArgumentParser) -> None:
    """Adds the figures that devices compare with their own before they accept a container."""
    group = titled(parser, OUTPUT)
    group.add_argument(
        "--product",
        type=word,
        metavar="ID",
        help="product of a container: devices refuse containers of other products",
    )
    group.add_argument(
        "--model-version",
        type=word,
        metavar="N",
        help="version of a container: devices refuse versions below their minimum",
    )


def hop_option(parser: argparse.ArgumentParser) -> None:
    """Adds the hop, and the options of state, of a model that keeps rows between inferences."""
    plan_options(parser, "hop", *STREAM)


def model_options(kinds: str = ".tflite or .onnx") -> argparse.ArgumentParser:
    """A model, how a plan for it is found, and calibration where it is in float."""
    model = argparse.ArgumentParser(add_help=False, parents=[planner_options()])
    int8_model(model, kinds=kinds)
    border_options(model)
    calibration_options(model)
    return model


def target_options(parser: argparse.ArgumentParser) -> None:
    """Adds the machine that runs a model."""
    titled(parser, MACHINE).add_argument(
        "--on",
        type=machine,
        metavar="MACHINE",
        help="machine that runs the model: virtual (every tensor, no compiler), host, qemu:m0 "
        "(Cortex-M0+ code on a Cortex-M3), qemu:m3, qemu:m4, qemu:m4-64k (64 KB of RAM), qemu:m7, "
        "qemu:m33, qemu:m55, qemu:rv32, qemu:rv64 or qemu:a53 (AArch64) (default virtual; host for "
        "a container); zephyr:BOARD: an application on an emulated board of your Zephyr workspace, "
        "such as zephyr:qemu_cortex_m3 or zephyr:native_sim; host+container and so on: load the "
        "model from a container. Does not change the weight layout: see --target",
    )
