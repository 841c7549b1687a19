# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from ..errors import Problem, UserError
from ..planner.options import spelled
from ..quantize.ranges import METHODS
from .parser import MACHINE, MODEL, OUTPUT, PLAN, QUANTISATION, STREAMING, titled
from .values import (
    Memories,
    byte_count,
    c_name,
    hop,
    machine,
    memories,
    percentage,
    seconds,
    serial_flash,
    target_name,
    weight_store,
    word,
)

# argparse gives it no public name.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Action = Callable[[argparse.Namespace], int]

# What commands take that run a model.
RUNNABLE = ".tflite or .onnx, or a container, .vmcu"
# The default of --target where a model runs.
OF_MACHINE = "that of --on, else dsp"


def refuse_with(others: Mapping[str, bool], reason: str, remedy: str, model: Path | None) -> None:
    """Raises UserError for the first option that is there and does not go with what is asked for;
    `reason` has {} where it is named."""
    found = next((option for option, there in others.items() if there), None)
    if found is not None:
        raise UserError(Problem(reason.format(found), remedy, str(model)))


def changed(args: argparse.Namespace, usual: Mapping[str, object]) -> dict[str, bool]:
    """For refuse_with(): by option, whether it has another value than `usual`, by destination."""
    return {spelled(name): getattr(args, name) != usual[name] for name in usual}


def int8_model(
    parser: argparse.ArgumentParser, otherwise: str = "", kinds: str = ".tflite or .onnx"
) -> None:
    """The model to work on; `otherwise`: what is done without one, where it may be left out."""
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


def all_option(parser: argparse.ArgumentParser, what: str) -> None:
    titled(parser, OUTPUT).add_argument(
        "--all", action="store_true", help=f"list all layers, not only those with the most {what}"
    )


def quiet_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="print only warnings and errors")


def border_options(parser: argparse.ArgumentParser) -> None:
    """How the files of inputs and outputs are laid out."""
    titled(parser, MODEL).add_argument(
        "--input-layout",
        choices=("file", "nhwc"),
        default="file",
        help="axes of inputs given in real numbers: as in the model file, or channels last "
        "(default file); int8 inputs of the C API always have channels last",
    )


def calibration_options(parser: argparse.ArgumentParser, needed: bool = False) -> None:
    """How a float model is quantised; `needed`: there is nothing to do without samples."""
    group = titled(parser, QUANTISATION)
    group.add_argument(
        "--calibration",
        type=Path,
        required=needed,
        metavar="FILE.npz",
        help="quantise a float .onnx model with these samples: an array (N, ...) for each input",
    )
    group.add_argument(
        "--calibration-method",
        choices=METHODS,
        default="minmax",
        help="choose ranges from the samples by minmax, entropy or percentile (default minmax)",
    )
    group.add_argument(
        "--per-tensor",
        action="store_true",
        help="use one scale for all weights of a layer (default: one for each output channel)",
    )


def planner_options(target: str = "dsp") -> argparse.ArgumentParser:
    """How a plan is found; a parent of the parsers of commands that make one. target: the default
    of --target."""
    parser = argparse.ArgumentParser(add_help=False)
    plan = titled(parser, PLAN)
    # `vmcu build` writes them in this order into the files that it emits.
    plan.add_argument(
        "--target",
        type=target_name,
        metavar="NAME",
        help="core that the plan is made for: dsp (Cortex-M4 and up), v7m (Cortex-M3) or portable, "
        "for every core; helium (Cortex-M55, M85), rv32 (RV32IM) or v6m (Cortex-M0+), for such "
        f"cores only (default: {target}); does not choose a machine",
    )
    plan.add_argument(
        "--ram",
        type=byte_count,
        metavar="SIZE",
        help="find the fastest plan in SIZE bytes, for example 64K, with the buffer of "
        "--external-weights; fail if there is none (default: find the smallest pool)",
    )
    plan.add_argument(
        "--plan-seconds",
        type=seconds,
        metavar="S",
        help="end the whole command after S seconds with the best plan found (default: search "
        "until done, with the same plan on every machine)",
    )
    titled(parser, STREAMING).add_argument(
        "--stream-input",
        action="store_true",
        help="feed the input row by row (vmcu_push_row); the pool never contains all of it",
    )
    plan.add_argument(
        "--external-input",
        action="store_true",
        help="read the input from flash, external RAM or a camera buffer (vmcu_set_input), not "
        "from the pool",
    )
    plan.add_argument(
        "--tile-cost",
        type=percentage,
        metavar="PERCENT",
        help="allow so many more cycles, estimated, for tiles smaller than a row (default: 1.5 "
        "times the share of RAM that they save); above 100, single columns are tried, too",
    )
    plan.add_argument(
        "--rotate",
        action="store_true",
        help="advance the origin of the pool after each inference to spread writes over all bytes; "
        "needs a few more bytes",
    )
    plan.add_argument(
        "--extra-macs",
        type=percentage,
        default=0.0,
        metavar="PERCENT",
        help="allow recomputation to save RAM (default 0; with --ram: as many as necessary)",
    )
    plan.add_argument(
        "--memory",
        type=memories,
        default=Memories(),
        metavar="NAME=SIZE[:CYCLES],...",
        help="use several memories, the fast ones first, for example "
        "dtcm=64K,sram=320K,psram=8M:10; CYCLES: wait states of an access (default 0, 1, 2, ...)",
    )
    plan.add_argument(
        "--external-weights",
        type=weight_store,
        metavar="RATE[,latency=TIME][,ram=SIZE]",
        help="write weights into NAME.weights.bin, which the runtime reads stage by stage into a "
        "buffer in RAM, for example from SPI flash with 8MB/s,latency=100us,ram=20K; ram: bytes of "
        "the buffer (default: as many as reading one stage ahead needs)",
    )
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


def name_option(parser: argparse.ArgumentParser) -> None:
    """What the model is called in C; its tables hold the name, so it counts in flash."""
    titled(parser, OUTPUT).add_argument(
        "--name", type=c_name, help="C name of the model (default: from the file name)"
    )


def release_options(parser: argparse.ArgumentParser) -> None:
    """What devices compare with their own before they take a container."""
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
    """How far the window of a model moves that keeps its rows from one inference to the next."""
    group = titled(parser, STREAMING)
    group.add_argument(
        "--hop",
        type=hop,
        default=0,
        metavar="N",
        help="feed N new rows a call (vmcu_push_row) along the input's H axis, and keep the rows "
        "of each layer that the next window needs",
    )
    stream_options(group)


def stream_options(group: argparse._ActionsContainer) -> None:
    """The time axis, and which inputs are outputs of the call before."""
    group.add_argument(
        "--time",
        choices=("h", "w"),
        help="time axis of the input for --hop; with w, a pushed row is a column of the image "
        "(default: h, or w if H is too short for N)",
    )
    group.add_argument(
        "--state",
        action="append",
        metavar="IN:OUT",
        help="feed OUT back as IN on the next call (initially zero); repeatable (default: pairs "
        "with matching names, such as state_in and state_out; none: no pairs)",
    )


def model_options(kinds: str = ".tflite or .onnx", target: str = "dsp") -> argparse.ArgumentParser:
    """A model, how a plan for it is found, and calibration where it is in float."""
    model = argparse.ArgumentParser(add_help=False, parents=[planner_options(target)])
    int8_model(model, kinds=kinds)
    border_options(model)
    calibration_options(model)
    return model


def target_options(parser: argparse.ArgumentParser) -> None:
    """Where a model shall run."""
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
