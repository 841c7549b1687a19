# SPDX-License-Identifier: Apache-2.0
"""Cost sheets of the files that a command can be given: a model, a container, a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..values import is_container

if TYPE_CHECKING:
    from ..report.model import ModelReport
    from ..report.sheet import Sheet

WHAT = "a model, .tflite or .onnx, a container, .vmcu, or a report, .json"
REPORT = ".json"


def report_of(args: argparse.Namespace) -> ModelReport:
    """The figures of the model that a command is given, planned as its options say."""
    from ..emit import emit
    from ..model_file import name_of
    from ..report import model
    from .models import compiled

    name = getattr(args, "name", None) or name_of(args.model)
    plan = compiled(args)
    emitted = emit(plan, name, "")
    return model.report(plan, name, emitted.tables_bytes, emitted.weights_bytes)


def sheet(args: argparse.Namespace, path: Path) -> Sheet:
    """The costs of a file; a model is planned with the options."""
    from ..container.files import facts_of
    from ..report import sheet

    if path.suffix == REPORT:
        return sheet.of_json(path)
    if is_container(path):
        return sheet.of_container(facts_of(path))
    return sheet.of_report(report_of(argparse.Namespace(**{**vars(args), "model": path})))
