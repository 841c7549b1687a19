# SPDX-License-Identifier: Apache-2.0
"""The parser of all commands: titled groups of options, short usage lines and suggestions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import alike, suggestion
from ..exits import EXIT_USAGE
from ..planner.keyword import PLAN, STREAMING

# The titles of groups of options, in the order of --help.
MODEL = "model"
QUANTISATION, MACHINE, LIMITS, OUTPUT = "quantisation", "machine", "limits", "output"
WEAR = "wear"
TITLES = (MODEL, MACHINE, LIMITS, WEAR, PLAN, STREAMING, QUANTISATION, OUTPUT)
OTHER = "other options"
EXAMPLES = "examples:\n"
# What follows a command on its command line, and what that does.
Examples = Sequence[tuple[str, str]]


class Help(argparse.HelpFormatter):
    """Keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)


def titled(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """The parser's group of options of that title, which is added if it is missing."""
    known = (group for group in parser._action_groups if group.title == title)
    return next(known, None) or parser.add_argument_group(title)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that suggests what a mistyped word may be."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**{"formatter_class": Help, **named})
        self._optionals.title = OTHER

    def commands(self) -> dict[str, Parser]:
        """The parsers of subcommands by name."""
        groups = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
        return dict(groups[0].choices) if groups else {}

    def visible(self) -> dict[str, str]:
        """The help of each subcommand that --help lists."""
        groups = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
        listed = groups[0]._get_subactions() if groups else []
        return {one.dest: one.help or "" for one in listed}

    def show_examples(self, examples: Examples) -> None:
        """Prints them below the options."""
        lines = (
            f"  %(prog)s {words}".rstrip() + f"\n      {what}".replace("%", "%%")
            for words, what in examples
        )
        self.epilog = EXAMPLES + "\n".join(lines) if examples else None

    def groups(self) -> list[argparse._ArgumentGroup]:
        """Groups of arguments in the order of --help: positional ones first, OTHER last."""
        order = {self._positionals.title: -1, OTHER: len(TITLES) + 1}
        order |= {title: number for number, title in enumerate(TITLES)}
        return sorted(self._action_groups, key=lambda one: order.get(one.title, len(TITLES)))

    def _short_usage(self, formatter: argparse.HelpFormatter) -> None:
        shown = [action for action in self._actions if action.required or not action.option_strings]
        formatter.add_usage(self.usage, shown, self._mutually_exclusive_groups)

    def _formatter(self) -> argparse.HelpFormatter:
        options = " [OPTION ...]" if len(self._option_string_actions) > 2 else ""
        return self.formatter_class(prog=self.prog + options)

    def format_usage(self) -> str:
        formatter = self._formatter()
        self._short_usage(formatter)
        return formatter.format_help()

    def format_help(self) -> str:
        formatter = self._formatter()
        self._short_usage(formatter)
        formatter.add_text(self._named(self.description))
        for group in self.groups():
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self._named(self.epilog))
        return formatter.format_help()

    def _named(self, text: str | None) -> str | None:
        """The formatter's own program name has the options behind it."""
        return text % {"prog": self.prog} if text and "%(prog)" in text else text

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses as argparse does, but an unknown word is an error of this command, not of the
        program."""
        parsed, extra = super().parse_known_args(args, namespace)
        if extra:
            self._refuse(extra)
        return parsed, extra

    def _refuse(self, extra: Sequence[str]) -> NoReturn:
        word = next((one for one in extra if one.startswith("-") and one != "--"), extra[0])
        if not word.startswith("-"):
            self.error(f"unexpected argument '{word}'")
        name = word.partition("=")[0]
        known = (
            option
            for option, action in self._option_string_actions.items()
            if action.help != argparse.SUPPRESS
        )
        self.error(f"unknown option '{name}'{suggestion(name, known, f'{self.prog} --help')}")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"error: {message}\n")

    def unknown_command(self, name: str) -> NoReturn:
        hint = suggestion(name, self.visible(), f"{self.prog} --help")
        self.error(f"unknown command '{name}'{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            self.unknown_command(str(value))
        choices = ", ".join(map(str, action.choices))
        near = alike(str(value), map(str, action.choices))
        hint = f". hint: did you mean {near}?" if near else ""
        raise argparse.ArgumentError(action, f"'{value}' is not one of {choices}{hint}")
