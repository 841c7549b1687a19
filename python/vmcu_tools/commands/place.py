# SPDX-License-Identifier: Apache-2.0
"""`vmcu place`: buffers of anybody, of given lifetimes and sizes, and graphs of anybody."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..exits import EXIT_DONE, EXIT_INTERRUPTED
from .options import Subparsers, byte_count, json_option, memories, real


def duration(text: str) -> float:
    """Seconds; 0 searches no longer than it must."""
    return real(text, "number of seconds")


def add(commands: Subparsers) -> argparse.ArgumentParser:
    place = commands.add_parser(
        "place",
        help="place buffers of given lifetimes, or order and place the tensors of any graph",
        description="Reads buffers from a CSV file with the columns id,lower,upper,size (and "
        "alignment, gaps, offset, accesses); a buffer is alive from lower until just before upper. "
        "With --graph, reads nodes and tensors from JSON and finds the order of nodes whose worst "
        "step needs the fewest bytes, then offsets: doc/placement.md has both formats. Ctrl-C ends "
        "the search: the best so far is printed and written, with exit code 130.",
    )
    what = place.add_mutually_exclusive_group(required=True)
    what.add_argument("problem", type=Path, nargs="?", metavar="PROBLEM.csv")
    what.add_argument("--graph", type=Path, metavar="FILE.json", help="a graph in place of buffers")
    place.add_argument(
        "--only",
        choices=("order", "placement"),
        default="",
        help="of a graph: no offsets, or offsets in the order that it has",
    )
    place.add_argument(
        "--capacity", type=byte_count, metavar="SIZE", help="fail if it takes more, e.g. 64K"
    )
    place.add_argument(
        "--memory",
        type=memories,
        default=(),
        metavar="NAME=SIZE[:COST],...",
        help="place buffers in several memories, the cheap ones first: what costs least, an access "
        "(column accesses) costing what its memory does (default 0, 1, 2, ...)",
    )
    place.add_argument(
        "--seconds",
        type=duration,
        default=None,
        help="end the search within so many seconds (default: 50 for offsets, and as long as it "
        "takes for the order of a graph, which is then the same on every machine)",
    )
    place.add_argument(
        "--solver",
        choices=("highs", "cbc"),
        default="",
        help="of a graph: then solve MODeL's integer program of order and offsets too, in as many "
        "seconds again, and say what it proves; needs the Python package highspy, or pulp's CBC",
    )
    json_option(place, "the figures and offsets")
    place.add_argument(
        "--output", type=Path, metavar="OUT.csv", help="write the problem with a column 'offset'"
    )
    return place


def run(args: argparse.Namespace) -> int:
    from ..errors import Problem, UserError
    from ..placement.complaints import InputError

    try:
        if args.solver and (not args.graph or args.only):
            reason = "--solver goes with --graph, and without --only"
            raise UserError(Problem(reason, "leave out one of the two"))
        if args.memory:
            return distribution(args)
        return graph(args) if args.graph else buffers(args)
    except InputError as error:
        problems = [Problem(c.reason, c.remedy, c.file) for c in error.complaints]
        raise UserError(*problems) from error


def buffers(args: argparse.Namespace) -> int:
    """Places buffers of given lifetimes."""
    from .. import placement as placing
    from .. import progress
    from ..placement import files
    from ..report import placements
    from ..report.terminal import console, write_json

    problem, seconds = files.read(args.problem), args.seconds or placing.SECONDS
    with progress.clock("placing", seconds) as watch:
        placement = placing.place(problem, args.capacity, seconds, watch=watch, keep=True)
    placements.print_placement(problem, placement, console())
    write_json(placements.figures(problem, placement, args.capacity), args.json)
    if args.output:
        files.write(problem, placement, args.output)
    if placement.interrupted:
        return EXIT_INTERRUPTED
    if args.capacity is not None and placement.height > args.capacity:
        raise placements.too_high(problem.origin, placement, args.capacity)
    return EXIT_DONE


def distribution(args: argparse.Namespace) -> int:
    """Places buffers in several memories."""
    from ..errors import Problem, UserError
    from ..placement import SECONDS, files
    from ..placement import memories as several
    from ..report import placements
    from ..report.terminal import console, write_json

    if args.graph or args.capacity is not None or args.output:
        other = "--graph" if args.graph else "--output" if args.output else "--capacity"
        raise UserError(Problem(f"--memory does not go with {other}", "leave out one of the two"))
    problem = files.read(args.problem)
    named = [several.MemoryBank(one.name, one.capacity, one.wait) for one in args.memory]
    found = several.place_in(problem, named, args.seconds or SECONDS)
    if found is None:
        room = ", ".join(f"{one.name} ({one.capacity:,} bytes)" for one in named)
        reason = f"no places were found in {room}"
        raise UserError(Problem(reason, "allow more with --memory", problem.origin))
    placements.print_distribution(problem, named, found, console())
    write_json(placements.distribution_figures(problem, named, found), args.json)
    return EXIT_DONE


def graph(args: argparse.Namespace) -> int:
    """Orders and places the tensors of a graph."""
    from .. import progress
    from ..errors import Problem, UserError
    from ..placement import SECONDS, graphs
    from ..report import placements
    from ..report.terminal import console, write_json

    problem = graphs.read(args.graph)
    with progress.clock("ordering and placing", args.seconds or SECONDS) as watch:
        plan = graphs.solve(
            problem, args.seconds, told=watch, only=args.only, keep=True, solver=args.solver
        )
    placements.print_plan(problem, plan, console())
    write_json(placements.plan_figures(plan), args.json)
    if args.output and plan.offsets is not None:
        placements.write_offsets(plan, args.output)
    if plan.interrupted:
        return EXIT_INTERRUPTED
    if plan.unproven:
        remedy = "allow more with --seconds, or leave out --solver: the plan above was searched for"
        raise UserError(Problem(plan.proof, remedy, problem.origin))
    if args.capacity is not None and plan.height > args.capacity:
        raise placements.too_high(problem.origin, plan, args.capacity)
    return EXIT_DONE
