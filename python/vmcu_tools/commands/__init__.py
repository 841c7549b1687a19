# SPDX-License-Identifier: Apache-2.0
"""The words of the command line: a file a command, its options and what it does.

A file here imports at its top only what options need; actions import the rest when they run, so
that `--help` and a mistyped option wait for nothing.
"""
