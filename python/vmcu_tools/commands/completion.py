# SPDX-License-Identifier: Apache-2.0
"""`vmcu completion`: commands, options and files by the Tab key."""

from __future__ import annotations

import argparse

from ..exits import EXIT_DONE
from .options import Subparsers

SHELLS = ("bash", "zsh", "fish")


def add(commands: Subparsers) -> argparse.ArgumentParser:
    completion = commands.add_parser(
        "completion",
        help="print what makes a shell complete commands and options",
        description='Prints a script for the shell. bash, in ~/.bashrc: eval "$(vmcu completion '
        'bash)"; zsh, in ~/.zshrc after compinit: eval "$(vmcu completion zsh)"; fish: vmcu '
        "completion fish > ~/.config/fish/completions/vmcu.fish",
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    return completion


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["vmcu"], shell=args.shell))
    return EXIT_DONE
