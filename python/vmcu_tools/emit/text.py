# SPDX-License-Identifier: Apache-2.0
"""Templates, and text from model files that is safe inside of C."""

from __future__ import annotations

import functools
import re

import jinja2


def comment(text: str) -> str:
    """Text from a model file that cannot end a comment, nor continue its line."""
    return re.sub(r"[^ -~]|\*/|/\*|\\|\?", "_", text)


def string(text: str) -> str:
    """A C string literal; octal escapes end after three digits whatever follows."""
    return "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in text.encode("utf-8")
    )


@functools.cache
def environment() -> jinja2.Environment:
    """The templates of this package, each compiled once."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__name__.rpartition(".")[0]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
