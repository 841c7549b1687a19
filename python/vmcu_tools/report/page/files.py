# SPDX-License-Identifier: Apache-2.0
"""The page and the pictures of a plan, as the contents of their files."""

from __future__ import annotations

from ...paths import optional
from ...plan.plan import Plan
from ..model import ModelReport
from . import html, picture, raster, svg
from .lives import lives_of
from .plot import whole


def page(plan: Plan, report: ModelReport) -> bytes:
    """The page, with other planners beside this plan's where their package is installed."""
    comparison = optional("vmcu_lab.report.comparison")
    return html.render(plan, report, comparison and comparison.beside(plan)).encode()


def svg_picture(plan: Plan, report: ModelReport) -> bytes:
    """The map of the pool alone."""
    return svg.picture(_shapes(plan, report), f"{report.model}: its pool").encode()


def png_picture(plan: Plan, report: ModelReport) -> bytes:
    """The same in pixels. Raises UserError where Pillow is missing."""
    return raster.png(_shapes(plan, report))


def _shapes(plan: Plan, report: ModelReport) -> list[picture.Shape]:
    return picture.shapes(whole(lives_of(plan)), report)
