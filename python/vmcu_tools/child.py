# SPDX-License-Identifier: Apache-2.0
"""A process of its own for a search that may have to be ended, with the solvers that it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys


def start(module: str) -> subprocess.Popen[bytes]:
    """Runs serve() of a module, which reads from standard input and writes to standard output.

    A fork of a process whose solvers have run with threads may wait for these forever, and
    multiprocessing's other ways import the caller's main module, a script as it may be, again.
    """
    return subprocess.Popen(
        [sys.executable, "-c", f"from {module} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A terminal's Ctrl-C is for the parent, which ends the child and the solvers it started.
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Asks the process, which has a session of its own, and all that it has started to end; where
    there are no groups of processes, it alone."""
    if not hasattr(os, "killpg"):
        process.terminate()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all that it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
