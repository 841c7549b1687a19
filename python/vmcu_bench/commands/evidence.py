# SPDX-License-Identifier: Apache-2.0
"""`vmcu evidence`: all checks of a model, their results and their subjects in one file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vmcu_tools.commands.options import (
    Subparsers,
    hop_option,
    model_options,
    seed_option,
    target_options,
)
from vmcu_tools.commands.parser import OUTPUT, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE, EXIT_PROBLEM
from vmcu_tools.values import count

if TYPE_CHECKING:
    from vmcu_check.images.check import Verdict

EXAMPLES = (
    ("kws.tflite -o kws.evidence.zip", "the compiler's own checks"),
    ("kws.tflite --elf zephyr.elf -o kws.evidence.zip", "and those of the linked image"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    evidence = commands.add_parser(
        "evidence",
        parents=[model_options()],
        help="run all checks of a model and archive their results",
        description="Compiles a model, proves its plan, compares its outputs with the file's own "
        "runtime, checks a linked image, and writes the results with the tables, their digests and "
        "an SPDX document into a ZIP file. The same inputs give the same bytes on any computer. "
        "Exit 1 if a check failed.",
    )
    target_options(evidence)
    evidence.add_argument(
        "--elf", type=Path, metavar="ELF", help="linked image that has the model, with symbols"
    )
    titled(evidence, OUTPUT).add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE.zip", help="file to write"
    )
    evidence.add_argument(
        "-n", "--samples", type=count, default=20, metavar="N", help="random inputs (default 20)"
    )
    seed_option(evidence, "random inputs")
    hop_option(evidence)
    return evidence


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.commands.build import chosen_options
    from vmcu_tools.commands.models import compiled
    from vmcu_tools.model_file import name_of

    from .. import runners
    from ..report.evidence import EvidenceSubject, archive, collect

    name = name_of(args.model)
    options = chosen_options(args, args.model)
    data = args.calibration if args.calibration and args.calibration.is_file() else None
    plan = compiled(args)
    subject = EvidenceSubject(args.model, data, name, options, plan, args.elf, _check_image)
    evidence = collect(subject, args.on or runners.VIRTUAL, args.samples, args.seed)
    args.output.write_bytes(archive(evidence.files))
    for one in evidence.requirements:
        print(f"{one.result}: {one.requirement}: {one.detail}")
    print(f"wrote {args.output}")
    return EXIT_DONE if evidence.passed else EXIT_PROBLEM


def _check_image(elf: Path, model: Path) -> Sequence[Verdict]:
    """Checks an image without running it. Raises UserError if it is wrong."""
    from vmcu_check.images.check import check
    from vmcu_check.images.elf import ImageError

    from .references import reference_of

    try:
        return check(elf, model, 0, reference_of)
    except ImageError as error:
        raise UserError(Problem(str(error), error.hint, str(elf))) from error
