# SPDX-License-Identifier: Apache-2.0
"""The first code of `vmcu` and `python -m vmcu_tools`: nothing that takes time to import, so
that Ctrl-C is one line from the beginning on."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from types import FrameType

from . import collector
from .exits import EXIT_INTERRUPTED, EXIT_PIPE, EXIT_PROBLEM


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    """Ends the program at once where a module is being imported: those of C++ crash, or make an
    ImportError of an exception. Elsewhere Ctrl-C is a KeyboardInterrupt, as usual."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            os.write(2, b"vmcu: interrupted\n")
            os._exit(EXIT_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def main(argv: list[str] | None = None, prog: str = "vmcu") -> int:
    """Runs one command, called by `prog`; returns its exit code. Characters that a terminal
    cannot show become question marks; a reader that goes away, as `head` does, ends it without a
    word."""
    if not sys.warnoptions:
        # Those of libraries are for their callers.
        warnings.simplefilter("ignore")
    # A shell's background jobs, and programs that embed this, have other handlers, which stay.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_interrupt)
    try:
        _open_closed()
        for stream in (sys.stdout, sys.stderr):
            # The stand-in for a terminal in tests, or under pythonw, has no such method.
            getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
        from . import cli

        if "_ARGCOMPLETE" in os.environ:
            # A shell asks for completions.
            import argcomplete

            argcomplete.autocomplete(cli.parser())
        with collector.seldom():
            code = cli.main(argv, prog)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("vmcu: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard()
        return EXIT_PIPE
    except OSError as error:
        _discard()
        print(f"error: cannot write: {error.strerror}", file=sys.stderr)
        return EXIT_PROBLEM


def _open_closed() -> None:
    """Streams that the caller has closed lead nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - to the end, and soon


def _discard() -> None:
    """Discards the rest of the output, or the interpreter's end would complain of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
