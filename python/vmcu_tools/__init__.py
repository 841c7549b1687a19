# SPDX-License-Identifier: Apache-2.0
"""The vmcu compiler: an int8 model file in, a proven memory plan and const C tables out."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`vmcu_tools.peak`, loaded when it is asked for: commands that say what they can do wait for
    nothing."""
    if name == "peak":
        import importlib

        return importlib.import_module(".fit.peak", __name__).peak
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
