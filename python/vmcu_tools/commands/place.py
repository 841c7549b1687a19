# SPDX-License-Identifier: Apache-2.0
"""`vmcu place`: buffers of anybody, of given lifetimes and sizes."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import EXIT_DONE, EXIT_INTERRUPTED, Subparsers, byte_count, json_option, real


def duration(text: str) -> float:
    """Seconds; 0 searches no longer than it must."""
    return real(text, "number of seconds")


def add(commands: Subparsers) -> argparse.ArgumentParser:
    place = commands.add_parser(
        "place",
        help="place buffers of given lifetimes and sizes in as few bytes as possible",
        description="Reads buffers from a CSV file with the columns id,lower,upper,size (and "
        "alignment); a buffer is alive from lower until just before upper. Ctrl-C ends the search: "
        "the best placement so far is printed and written, with exit code 130.",
    )
    place.add_argument("problem", type=Path, metavar="PROBLEM.csv")
    place.add_argument(
        "--capacity", type=byte_count, metavar="SIZE", help="fail if it takes more, e.g. 64K"
    )
    place.add_argument(
        "--seconds", type=duration, default=50.0, help="to search at most (default 50)"
    )
    json_option(place, "the figures and offsets")
    place.add_argument(
        "--output", type=Path, metavar="OUT.csv", help="write the problem with a column 'offset'"
    )
    return place


def run(args: argparse.Namespace) -> int:
    from .. import placement as placing
    from .. import progress
    from ..placement import files
    from ..report import placements
    from ..report.terminal import console, write_json

    problem = files.read(args.problem)
    with progress.clock("placing", args.seconds) as watch:
        placement = placing.place(problem, args.capacity, args.seconds, watch=watch, keep=True)
    placements.print_placement(problem, placement, console())
    write_json(placements.figures(problem, placement, args.capacity), args.json)
    if args.output:
        files.write(problem, placement, args.output)
    if placement.interrupted:
        return EXIT_INTERRUPTED
    if args.capacity is not None and placement.height > args.capacity:
        raise placements.too_high(problem, placement, args.capacity)
    return EXIT_DONE
