# SPDX-License-Identifier: Apache-2.0
"""The vmcu compiler: an int8 model file in, a proven memory plan and const C tables out."""

__version__ = "0.1.0"
