# SPDX-License-Identifier: Apache-2.0
"""What a person at a terminal sees of a search, and that a pipe sees nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from vmcu_tools import progress


def shown(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    """What comes out on stderr during a search."""
    out = io.StringIO()

    def console(stderr: bool) -> Console:
        return Console(file=out, force_terminal=terminal, width=100)

    monkeypatch.setattr(progress, "Console", console)
    with progress.clock("placing", 8) as watch:
        watch(1000, 1500)
    return out.getvalue()


def test_a_bar_shows_bound_and_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, terminal=True)
    assert "placing" in text and "bound 1,000, best 1,500, gap 50.0%" in text


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, terminal=False) == ""


def test_a_terminal_that_cannot_move_its_cursor_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert shown(monkeypatch, terminal=True) == ""


def test_a_clock_grows_with_time_and_ends_full() -> None:
    now = [100.0]
    console = Console(file=io.StringIO(), force_terminal=True)
    bar = progress.Clock(console=console, get_time=lambda: now[0])
    bar.add_task("solving", total=8)
    for seconds, done in ((0, 0), (2, 2), (7.5, 7.5), (8, 8), (30, 8)):
        now[0] = 100.0 + seconds
        assert list(bar.get_renderables())
        assert [task.completed for task in bar.tasks] == [done]


@pytest.mark.parametrize(("seconds", "total"), [(8.0, 8.0), (0.0, 1.0)])
def test_a_clock_is_full_after_the_seconds_of_its_search(
    monkeypatch: pytest.MonkeyPatch, seconds: float, total: float
) -> None:
    """A bar of 0 seconds is not full from the start."""
    bars = []

    class Kept(progress.Clock):
        def start(self) -> None:
            bars.append(self)

    monkeypatch.setattr(progress, "Clock", Kept)
    with progress.clock("solving", seconds):
        pass
    assert [task.total for bar in bars for task in bar.tasks] == [total]
