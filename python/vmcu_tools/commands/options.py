# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, and the values that options take."""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ..errors import Problem, UserError
from ..plan.pools import MOST_OF_SEVERAL, MOST_POOLS, Region
from ..planner.options import DEFAULT, SOLVER_SECONDS, SUMMARIES
from ..quantize.ranges import METHODS

# argparse gives it no public name.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Action = Callable[[argparse.Namespace], int]

# Of --input: where it lies.
ELSEWHERE = "elsewhere"
CONTAINER = ".vmcu"
# What commands take that run a model.
RUNNABLE = ".tflite or .onnx, or a container, .vmcu"
UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


def is_container(path: Path | None) -> bool:
    """True for a file that is named as containers are."""
    return path is not None and path.suffix == CONTAINER


def byte_count(text: str) -> int:
    """'65536', '64K', '1M' to bytes; K is 1024."""
    number, unit = text.strip().lower().removesuffix("b"), ""
    if number and number[-1] in UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size; write 65536, 64K or 1M")
    return int(number) * UNITS[unit]


def c_name(text: str) -> str:
    """A name that C accepts as an identifier."""
    if not text.isidentifier() or not text.isascii():
        raise argparse.ArgumentTypeError(f"'{text}' is not a C identifier")
    return text


class Memories(tuple[Region, ...]):
    """What --memory takes."""

    def __str__(self) -> str:
        return ",".join(f"{one.name}={one.capacity}:{one.wait:g}" for one in self)


def memories(text: str) -> Memories:
    """'dtcm=64K,psram=8M:10' to memories; without it, an access waits as many cycles as there are
    memories in front."""
    found: list[Region] = []
    for part in text.split(","):
        match = re.fullmatch(r"([A-Za-z]\w*)=([^:]+)(?::(.+))?", part.strip(), flags=re.ASCII)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"'{part}' is not a memory; write NAME=SIZE or NAME=SIZE:CYCLES"
            )
        name, size, wait = match.groups()
        cycles = float(len(found)) if wait is None else real(wait, "number of cycles", most=1e6)
        found.append(Region(name.lower(), byte_count(size), cycles))
    _check_memories(found)
    return Memories(found)


def _check_memories(found: Sequence[Region]) -> None:
    if len({region.name for region in found}) < len(found):
        raise argparse.ArgumentTypeError("two memories have the same name")
    if len(found) > MOST_POOLS:
        raise argparse.ArgumentTypeError(f"{len(found)} memories, the most is {MOST_POOLS}")
    if any(before.wait > after.wait for before, after in itertools.pairwise(found)):
        raise argparse.ArgumentTypeError("name the fast memories before the slow ones")
    large = next((region for region in found if region.capacity > MOST_OF_SEVERAL), None)
    if large is not None and len(found) > 1:
        most = MOST_OF_SEVERAL // UNITS["m"]
        raise argparse.ArgumentTypeError(f"'{large.name}' is larger than {most}M")


def count(text: str) -> int:
    """A number of things, from 0 on."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a count")
    return int(text)


def hop(text: str) -> int:
    """Rows by which a window moves, from 1 on."""
    if count(text) == 0:
        raise argparse.ArgumentTypeError("a window that does not move has one answer")
    return int(text)


def target_name(text: str) -> str:
    """A target of kernels/targets, which are not loaded unless one is asked for."""
    from ..kernels.targets import TARGETS

    if text not in TARGETS:
        known = ", ".join(TARGETS)
        raise argparse.ArgumentTypeError(f"there is no target '{text}', choose from {known}")
    return text


def zephyr_board(text: str) -> str:
    """The name of a Zephyr board, with qualifiers."""
    if not re.fullmatch(r"[\w/@.-]+", text, flags=re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}' is not the name of a board")
    return text


def zephyr_target(text: str) -> str:
    """A Zephyr board as --on names it."""
    return f"zephyr:{zephyr_board(text)}"


def real(text: str, what: str, least: float = 0.0, most: float = math.inf, unit: str = "") -> float:
    """A number from `least` on and below `most`; `what` names it where it is none."""
    try:
        value = float(text.removesuffix(unit))
    except ValueError:
        value = math.nan
    if not least <= value < most:
        raise argparse.ArgumentTypeError(f"'{text}' is not a {what}")
    return value


# The smallest positive float, and the least one that is a number.
POSITIVE = 5e-324
LEAST = -1.7976931348623157e308


def finite(text: str) -> float:
    """Any number but infinity and NaN."""
    return real(text, "number", LEAST)


def seconds(text: str) -> float:
    """What a solver may take."""
    return real(text, "number of seconds", POSITIVE, 1e6)


class Share(float):
    """A part of something, which is written in percent."""

    def __str__(self) -> str:
        return f"{100 * self:.15g}"


def percentage(text: str) -> Share:
    """'8' or '8%' to 0.08."""
    return Share(real(text, "percentage", most=1e6, unit="%") / 100)


def refuse_with(others: Mapping[str, bool], reason: str, remedy: str, model: Path | None) -> None:
    """Raises UserError for the first option that is there and does not go with what is asked for;
    `reason` has {} where it is named."""
    found = next((option for option, there in others.items() if there), None)
    if found is not None:
        raise UserError(Problem(reason.format(found), remedy, str(model)))


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
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help=f"write {what} as JSON; -: to standard output, and nothing else there",
    )


def quiet_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing but warnings and what is wrong"
    )


def border_options(parser: argparse.ArgumentParser) -> None:
    """How the files of inputs and outputs are laid out."""
    parser.add_argument(
        "--input-layout",
        choices=("file", "nhwc"),
        default="file",
        help="axes of inputs given in real numbers: as in the model file, or channels last "
        "(default file); int8 inputs of the C interface always have the channels last",
    )


def calibration_options(parser: argparse.ArgumentParser, needed: bool = False) -> None:
    """How a float model is quantised; `needed`: there is nothing to do without samples."""
    parser.add_argument(
        "--calibration",
        type=Path,
        required=needed,
        metavar="FILE.npz",
        help="quantise a float .onnx model on these samples: an array (N, ...) for each input",
    )
    parser.add_argument(
        "--calibration-method",
        choices=METHODS,
        default="minmax",
        help="how ranges are chosen from the samples (default minmax)",
    )
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer (default: one per output channel)",
    )


def planner_options() -> argparse.ArgumentParser:
    """How a plan is found; a parent of the parsers of commands that make one."""
    planner = argparse.ArgumentParser(add_help=False)
    planner.add_argument(
        "--planner",
        choices=SUMMARIES,
        default=DEFAULT,
        help="; ".join(f"{name}: {summary}" for name, summary in SUMMARIES.items())
        + f" (default {DEFAULT})",
    )
    planner.add_argument(
        "--target",
        type=target_name,
        metavar="NAME",
        help="the cores to lay out weights for: dsp (Cortex-M4 and up), v7m (Cortex-M3), portable; "
        "all three have one layout, which every core runs (default dsp)",
    )
    planner.add_argument(
        "--ram",
        type=byte_count,
        metavar="SIZE",
        help="the fastest plan in so many bytes, e.g. 64K; fail if there is none (default: the "
        "smallest pool)",
    )
    planner.add_argument(
        "--solver-seconds",
        type=seconds,
        default=SOLVER_SECONDS,
        metavar="S",
        help=f"what solvers may take where branches need one (default {SOLVER_SECONDS:g})",
    )
    planner.add_argument(
        "--plan-seconds",
        type=seconds,
        metavar="S",
        help="end the whole command within so many seconds, with the best plan of planner vmcu by "
        "then; Ctrl-C ends the search sooner (default: until it ends by itself, with the same plan "
        "on every machine)",
    )
    planner.add_argument(
        "--stream-input",
        action="store_true",
        help="the model takes its input row by row (vmcu_push_row), which never exists whole",
    )
    planner.add_argument(
        "--input",
        choices=(ELSEWHERE,),
        help=f"{ELSEWHERE}: the input is read where it lies, in flash, external RAM or a camera's "
        "buffer (vmcu_set_input), and takes no bytes of the pool",
    )
    planner.add_argument(
        "--tile-cost",
        type=percentage,
        metavar="PERCENT",
        help="how many more cycles may be spent, by estimate, on keeping tensors in tiles of rows "
        "(default: one and a half times the part that they save of the RAM); more than 100 also "
        "tries single columns",
    )
    planner.add_argument(
        "--rotate",
        action="store_true",
        help="the pool's origin advances after each inference, so that all bytes are written "
        "equally often; takes some more bytes, see doc/endurance.md",
    )
    planner.add_argument(
        "--extra-macs",
        type=percentage,
        default=0.0,
        metavar="PERCENT",
        help="how many multiply-accumulates may be done twice to need less RAM, by working the "
        "widest stages in bands of columns, or computing what windows see again (default 0; --ram "
        "takes what it needs)",
    )
    planner.add_argument(
        "--memory",
        type=memories,
        default=Memories(),
        metavar="NAME=SIZE[:CYCLES],...",
        help="put pools in several memories, the fast ones first, what is accessed most in these: "
        "dtcm=64K,sram=320K,psram=8M:10; CYCLES: what an access waits (default 0, 1, 2, ...); one "
        "memory is the same as --ram; see doc/memories.md",
    )
    return planner


def name_option(parser: argparse.ArgumentParser) -> None:
    """What the model is called in C; its tables hold the name, so it counts in flash."""
    parser.add_argument("--name", type=c_name, help="C name of the model (default: the file's)")


def word(text: str) -> int:
    """A number of 32 bits."""
    if count(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"'{text}' is more than 4294967295")
    return int(text)


def release_options(parser: argparse.ArgumentParser) -> None:
    """What devices compare with their own before they take a container."""
    parser.add_argument(
        "--product",
        type=word,
        metavar="ID",
        help="state the product that the container is for: devices refuse those of other products",
    )
    parser.add_argument(
        "--model-version",
        type=word,
        metavar="N",
        help="state the version of the model: devices refuse one below their minimum",
    )


def hop_option(parser: argparse.ArgumentParser) -> None:
    """How far the window of a model moves that keeps its rows from one inference to the next."""
    parser.add_argument(
        "--hop",
        type=hop,
        default=0,
        metavar="N",
        help="time is the input's H: take N new rows a call (vmcu_push_row), and keep of each "
        "layer the rows that the next position of the window needs; layers that need all of a "
        "window anew are named; see doc/streaming.md",
    )
    parser.add_argument(
        "--time",
        choices=("h", "w"),
        help="the axis of the input that is time to --hop; along w a row that is pushed is a "
        "column of the file's image, from the top on (default: h, or w where H has one row or N is "
        "too large for it)",
    )
    parser.add_argument(
        "--state",
        action="append",
        metavar="IN:OUT",
        help="give input IN what output OUT was in the call before, zeros in the first: both are "
        "rings of the pool then, and a call takes the rows of the other input; may be repeated "
        "(default: those whose names say so, as in state_in and state_out, and that fit; none: "
        "leave all as they are)",
    )


def model_options(kinds: str = ".tflite or .onnx") -> argparse.ArgumentParser:
    """A model, how a plan for it is found, and calibration where it is in float."""
    model = argparse.ArgumentParser(add_help=False, parents=[planner_options()])
    int8_model(model, kinds=kinds)
    border_options(model)
    calibration_options(model)
    return model


def target_options() -> argparse.ArgumentParser:
    """Where a model shall run."""
    target = argparse.ArgumentParser(add_help=False)
    where = target.add_mutually_exclusive_group()
    where.add_argument(
        "--on",
        metavar="TARGET",
        help="virtual (the planner's own machine, every tensor), host, qemu:m3, qemu:m4, "
        "qemu:m4-64k (64 KB of RAM), qemu:m7, qemu:m33 (default virtual, of a container host); "
        "all but virtual with '+container' behind: the model is loaded from a container",
    )
    where.add_argument(
        "--board",
        type=zephyr_target,
        dest="on",
        metavar="BOARD",
        help="a board of your Zephyr workspace that is emulated, such as qemu_cortex_m3, or "
        "native_sim; the model runs in a Zephyr application",
    )
    return target
