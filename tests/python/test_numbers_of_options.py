# SPDX-License-Identifier: Apache-2.0
"""No option of any command takes what is no finite number for one."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import pytest
from vmcu_tools.cli import main, parser


def options() -> Iterator[tuple[str, argparse.Action]]:
    """Every option of every command whose value is converted, by what it is called."""
    waiting = [("vmcu", parser())]
    while waiting:
        name, one = waiting.pop()
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += [(f"{name} {word}", sub) for word, sub in action.choices.items()]
            elif callable(action.type):
                yield f"{name} {'/'.join(action.option_strings) or action.dest}", action


OPTIONS = dict(options())


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_no_number(name, text):
    convert = OPTIONS[name].type
    try:
        value = convert(text)
    except (argparse.ArgumentTypeError, ValueError):
        return
    assert not isinstance(value, float) or math.isfinite(value)


def test_numbers_are_among_them():
    """What is left to Settings, and what is not."""
    kinds = [action.type for action in OPTIONS.values()]
    found = [kind for kind in kinds if isinstance(_of(kind, "0.5"), float)]
    assert len(found) >= 10


def _of(kind, text):
    try:
        return kind(text)
    except (argparse.ArgumentTypeError, ValueError):
        return None


@pytest.mark.parametrize("option", ["pcan_strength", "pcan_offset", "lower_hz"])
def test_audio(tmp_path, capsys, option):
    assert main(["audio", "--set", f"{option}=nan", "-o", str(tmp_path)]) == 2
    assert "'nan' is not a number" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
