# SPDX-License-Identifier: Apache-2.0
"""`west vmcu ...`: the same words as `python -m vmcu_tools ...`, inside a workspace."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from west.commands import WestCommand

ROOT = Path(__file__).resolve().parents[2]


class Vmcu(WestCommand):
    """Hands its arguments to vmcu_tools as they are, and its exit code back."""

    def __init__(self) -> None:
        super().__init__(
            "vmcu",
            "compile, verify and measure int8 neural networks",
            "Compiles int8 networks (.onnx, .tflite) to C tables that run in one pool of RAM.",
            accepts_unknown_args=True,
        )

    def do_add_parser(self, parser_adder) -> ArgumentParser:
        # No help option of its own: `west vmcu --help` and `west vmcu build --help` are answered
        # by vmcu_tools, which knows its commands.
        return parser_adder.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            add_help=False,
            usage="west vmcu <command> ...",
            epilog="`west vmcu --help` lists the commands.",
        )

    def do_run(self, args: Namespace, unknown: list[str]) -> None:
        sys.path.insert(0, str(ROOT / "python"))
        try:
            from vmcu_tools.entry import main

            code = main(unknown, "west vmcu")
        except ModuleNotFoundError as error:
            if not unknown or {"-h", "--help"} & set(unknown):
                self.parser.print_help()
            file = ROOT / "scripts" / "requirements.txt"
            command = shlex.join([sys.executable, "-m", "pip", "install", "-r", str(file)])
            self.die(f"{error}; install what the model compiler needs:\n  {command}")
        sys.exit(code)
