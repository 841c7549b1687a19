# SPDX-License-Identifier: Apache-2.0
"""The order of tasks whose worst step needs the fewest bytes.

    best_order(graph) -> Ordering

greedy.py has orders to begin with, sweep.py the search over sets of tasks that have run, forwards
and backwards (direction.py), windows.py improves a stretch of an order at a time, bounds.py has
lower bounds for every order. search.py decides between them, within so many steps and never by the
clock, so that the answer is the same on every machine.
"""

from .search import Ordering, best_order

__all__ = ["Ordering", "best_order"]
