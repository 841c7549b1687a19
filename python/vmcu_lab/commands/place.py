# SPDX-License-Identifier: Apache-2.0
"""`vmcu place`: buffers of given lifetimes, tensors of any graph, or of a .tflite file."""

from __future__ import annotations

import argparse
from pathlib import Path

from vmcu_tools.commands.options import Subparsers, json_option, refuse_with
from vmcu_tools.commands.parser import LIMITS, OUTPUT, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE, EXIT_INTERRUPTED
from vmcu_tools.values import banks, byte_count, real

EXAMPLES = (
    ("PROBLEM.csv", "buffers with lifetimes, at offsets"),
    ("PROBLEM.csv --memory fast=64K,slow=1M:10", "in two memories"),
    ("--graph FILE.json --json PLAN.json", "order and offsets of any graph"),
    ("--graph FILE.json --memory fast=64M,slow=1G:10", "in less memory than it needs"),
    ("IN.tflite --output OUT.tflite", "for TensorFlow Lite Micro's interpreter"),
)
TFLITE = ".tflite"
# Of a .tflite file's search.
TFLITE_SECONDS = 20.0


def duration(text: str) -> float:
    """Seconds; 0 is the shortest search."""
    return real(text, "number of seconds")


def limit(text: str) -> int | float:
    """Bytes, or a part of the smallest peak as a number up to 1."""
    if not text.endswith("%"):
        return byte_count(text)
    share = real(text[:-1], "percentage", most=100.0) / 100
    if not share:
        raise argparse.ArgumentTypeError("nothing runs in 0%; write for example 70%")
    return share


def add(commands: Subparsers) -> argparse.ArgumentParser:
    place = commands.add_parser(
        "place",
        usage="%(prog)s (PROBLEM.csv | IN.tflite --output OUT.tflite | --graph FILE.json)",
        help="place buffers, or order and place any graph",
        description="PROBLEM.csv: place buffers, with the columns id,lower,upper,size (optional: "
        "alignment, gaps, offset, accesses); a buffer is alive from lower until just before upper. "
        "--graph: find the order of nodes with the smallest peak, then offsets. IN.tflite: write "
        "the best order and offsets into OUT.tflite (OfflineMemoryAllocation); TensorFlow Lite "
        "Micro follows that plan, and outputs stay the same. Formats: `vmcu help placement.md`. "
        "Ctrl-C ends the search: vmcu prints and writes the best plan found, with exit code 130.",
    )
    what = place.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "problem", type=Path, nargs="?", metavar="FILE", help="buffers, .csv, or a model, .tflite"
    )
    what.add_argument("--graph", type=Path, metavar="FILE.json", help="graph to order and place")
    place.add_argument(
        "--only",
        choices=("order", "placement"),
        default="",
        help="with --graph: only order the nodes, or only place them in the order of the file",
    )
    place.add_argument(
        "--solver",
        choices=("highs", "cbc"),
        default="",
        help="with --graph: then solve MODeL's integer program of order and offsets, in as many "
        "seconds again, and print what it proves; needs the Python package highspy, or pulp's CBC",
    )
    limits = titled(place, LIMITS)
    limits.add_argument(
        "--ram",
        type=limit,
        metavar="SIZE|PERCENT",
        help="fail above SIZE, for example 64K; with --graph and --memory: use only so much of the "
        "first memory, SIZE or a share of the smallest peak of an order, for example 70%%",
    )
    limits.add_argument(
        "--memory",
        type=banks,
        default=(),
        metavar="NAME=SIZE[:COST],...",
        help="place buffers in several memories, the cheap ones first, at the least total cost; "
        "COST: of an access, which the column accesses counts (default 0, 1, 2, ...). With "
        "--graph, all nodes run in the first memory: tensors are copied to the second and back, "
        "and nodes run again, at the least total cost; COST: of copying a byte, in the unit of "
        "the nodes' cost",
    )
    limits.add_argument(
        "--seconds",
        type=duration,
        default=None,
        metavar="S",
        help="end the search after S seconds (default: 50 for offsets, 20 for a .tflite file; "
        "unlimited for the order of a graph, which is then the same on every machine)",
    )
    json_option(place, "the figures and offsets")
    titled(place, OUTPUT).add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the problem with a column 'offset' (.csv), or the model with its plan "
        "(.tflite)",
    )
    return place


def run(args: argparse.Namespace) -> int:
    from ..placement.complaints import InputError

    try:
        if args.solver and (not args.graph or args.only):
            reason = "--solver requires --graph and cannot be combined with --only"
            raise UserError(Problem(reason, "leave out one of the two"))
        if args.problem is not None and args.problem.suffix == TFLITE:
            _check_tflite(args)
            return tflite(args)
        if isinstance(args.ram, float) and not (args.graph and args.memory):
            reason = "--ram in percent requires --graph and --memory"
            raise UserError(Problem(reason, "give both, or bytes"))
        if args.memory:
            return limited(args) if args.graph else distribution(args)
        return graph(args) if args.graph else buffers(args)
    except InputError as error:
        problems = [Problem(c.reason, c.remedy, c.file) for c in error.complaints]
        raise UserError(*problems) from error


def _check_tflite(args: argparse.Namespace) -> None:
    others = {
        "--only": bool(args.only),
        "--ram": args.ram is not None,
        "--memory": bool(args.memory),
        "--json": args.json is not None,
    }
    reason = "{} cannot be combined with a .tflite file: TensorFlow Lite Micro has one arena"
    refuse_with(others, reason, "leave it out", args.problem)
    if args.output is None:
        reason = "the plan of a .tflite file is written into a copy of it"
        raise UserError(Problem(reason, "name one with --output", str(args.problem)))


def _seconds(args: argparse.Namespace, usual: float) -> float:
    """Those that were given, which may be 0."""
    given: float | None = args.seconds
    return usual if given is None else given


def tflite(args: argparse.Namespace) -> int:
    """A memory plan for TensorFlow Lite Micro, in the model's own file."""
    from .. import offline

    plan = offline.plan(args.problem, _seconds(args, TFLITE_SECONDS))
    args.output.write_bytes(offline.written(args.problem, plan))
    known = "optimal"
    if plan.height > plan.bound:
        known = f"lower bound {plan.bound:,} bytes"
    moved = "" if list(plan.order) == sorted(plan.order) else ", operators in another order"
    print(f"wrote {args.output}: tensors need {plan.height:,} bytes of the arena, {known}{moved}")
    return EXIT_DONE


def buffers(args: argparse.Namespace) -> int:
    """Places buffers of given lifetimes."""
    from vmcu_tools import progress
    from vmcu_tools.report.terminal import console, write_json

    from .. import placement as placing
    from ..placement import files
    from ..report import placements

    problem, seconds = files.read(args.problem), _seconds(args, placing.SECONDS)
    with progress.clock("placing", seconds) as watch:
        placement = placing.place(problem, args.ram, seconds, watch=watch, keep=True)
    placements.print_placement(problem, placement, console())
    write_json(placements.figures(problem, placement, args.ram), args.json)
    if args.output:
        files.write(problem, placement, args.output)
    if placement.is_interrupted:
        return EXIT_INTERRUPTED
    if args.ram is not None and placement.height > args.ram:
        raise placements.too_high(problem.origin, placement, args.ram)
    return EXIT_DONE


def distribution(args: argparse.Namespace) -> int:
    """Places buffers in several memories."""
    from vmcu_tools.report.terminal import console, write_json

    from ..placement import SECONDS, files
    from ..placement import memories as several
    from ..report import placements

    _refuse_with_memory(args)
    problem = files.read(args.problem)
    named = [several.MemoryBank(one.name, one.capacity, one.wait) for one in args.memory]
    banks = several.place_in(problem, named, _seconds(args, SECONDS))
    if banks is None:
        room = ", ".join(f"{one.name} ({one.capacity:,} bytes)" for one in named)
        reason = f"no placement was found in {room}"
        raise UserError(Problem(reason, "allow more with --memory", problem.origin))
    placements.print_distribution(problem, named, banks, console())
    write_json(placements.distribution_figures(problem, named, banks), args.json)
    return EXIT_DONE


def _refuse_with_memory(args: argparse.Namespace) -> None:
    others = {
        "--ram": args.ram is not None and not args.graph,
        "--output": args.output is not None,
        "--only": bool(args.only),
        "--solver": bool(args.solver),
    }
    reason = "{} cannot be combined with --memory"
    refuse_with(others, reason, "leave out one of the two", args.graph or args.problem)


def limited(args: argparse.Namespace) -> int:
    """Runs a graph in less memory than its tensors need."""
    from vmcu_tools import progress
    from vmcu_tools.ordering import best_order
    from vmcu_tools.report.terminal import console, write_json

    from ..placement import SECONDS, graphs
    from ..placement.spilling import Prices, solve_within
    from ..report import limited_plans

    _refuse_with_memory(args)
    if len(args.memory) > 2:
        reason = f"{len(args.memory)} memories: a graph is planned for one or two"
        raise UserError(Problem(reason, "name the one in which nodes run, and one for copies"))
    problem, fast = graphs.read(args.graph), args.memory[0]
    best, bytes_ = None, fast.capacity if args.ram is None else args.ram
    if isinstance(bytes_, float):
        best = best_order(problem.tasks)
        bytes_ = int(bytes_ * best.peak)
    slow = args.memory[1] if len(args.memory) > 1 else None
    prices = Prices(slow.wait, slow.capacity) if slow else Prices()
    with progress.clock("ordering and placing", _seconds(args, SECONDS)) as watch:
        most = min(bytes_, fast.capacity)
        plan = solve_within(problem, most, prices, args.seconds, watch, best=best)
    limited_plans.print_limited(problem, args.memory, plan, console())
    write_json(limited_plans.limited_figures(problem, args.memory, plan), args.json)
    return EXIT_DONE


def graph(args: argparse.Namespace) -> int:
    """Orders and places the tensors of a graph."""
    from vmcu_tools import progress
    from vmcu_tools.report.terminal import console, write_json

    from ..placement import SECONDS, graphs, program
    from ..report import placements

    problem = graphs.read(args.graph)
    if args.solver:
        program.require(args.solver, problem)
    with progress.clock("ordering and placing", _seconds(args, SECONDS)) as watch:
        plan = graphs.solve(problem, args.seconds, watch=watch, only=args.only, keep=True)
        if args.solver and not plan.is_interrupted:
            plan = graphs.prove(problem, plan, args.solver, _seconds(args, SECONDS))
    placements.print_plan(problem, plan, console())
    write_json(placements.plan_figures(plan), args.json)
    if args.output and plan.offsets is not None:
        placements.write_offsets(plan, args.output)
    if plan.is_interrupted:
        return EXIT_INTERRUPTED
    if plan.is_unproven:
        remedy = "allow more with --seconds, or leave out --solver: the plan above was searched for"
        raise UserError(Problem(plan.proof, remedy, problem.origin))
    if args.ram is not None and plan.height > args.ram:
        raise placements.too_high(problem.origin, plan, args.ram)
    return EXIT_DONE
