# SPDX-License-Identifier: Apache-2.0
"""The colours of pages and pictures, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping

# Areas of tensors, which the plot names, are the same in both; so is their background.
AREAS = {
    "c0": "#5b8def",
    "c1": "#f0a03c",
    "c2": "#35b19a",
    "c3": "#a077e0",
    "c4": "#8fb53f",
    "c5": "#e573a8",
    "c6": "#2fa8cf",
    "c7": "#c98a5a",
    "in": "#8b9bb0",
    "out": "#3c9a5f",
    "scratch": "#767d88",
}
LIGHT = {
    "paper": "#fbfbfa",
    "card": "#ffffff",
    "ink": "#1d2430",
    "soft": "#5d6776",
    "line": "#dfe3e8",
    "plot": "#f1f3f5",
    "peak": "#d0293d",
    "accent": "#2f66d0",
}
DARK = {
    "paper": "#12151a",
    "card": "#1a1f26",
    "ink": "#e8ecf1",
    "soft": "#9aa6b4",
    "line": "#2c343e",
    "plot": "#0d1014",
    "peak": "#ff6b78",
    "accent": "#7ea6ff",
}


def variables(colours: Mapping[str, str]) -> str:
    """Writes the colours as CSS."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())
