# SPDX-License-Identifier: Apache-2.0
"""The exit codes of commands. Imports nothing: entry.py needs them while all else is imported."""

EXIT_DONE, EXIT_PROBLEM, EXIT_USAGE = 0, 1, 2
# The exit codes of shells for SIGINT and SIGPIPE.
EXIT_INTERRUPTED, EXIT_PIPE = 130, 141
