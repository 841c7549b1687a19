# SPDX-License-Identifier: Apache-2.0
"""`vmcu compare`: planners side by side on one model."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ..exits import EXIT_DONE
from .options import Subparsers, calibration_options, int8_model, json_option


def add(commands: Subparsers) -> argparse.ArgumentParser:
    compare = commands.add_parser("compare", help="planners side by side")
    int8_model(compare)
    calibration_options(compare)
    json_option(compare)
    return compare


def run(args: argparse.Namespace) -> int:
    from ..compiler import compile_model
    from ..planner.options import SUMMARIES
    from ..report.comparison import comparison
    from ..report.terminal import console, write_json
    from ..report.text import print_comparison
    from .models import quantised

    # Those that come from elsewhere as they are there, for their own kernels.
    model = quantised(args)
    plans = {name: compile_model(model, name, original=True) for name in SUMMARIES}
    outcome = comparison(args.model.stem, plans)
    print_comparison(outcome, console())
    write_json(asdict(outcome), args.json)
    return EXIT_DONE
