# SPDX-License-Identifier: Apache-2.0
"""What `vmcu verify` holds a node to, for one sample."""

from __future__ import annotations

from vmcu_bench.oracle import Difference, Oracle
from vmcu_bench.oracle.promise import FEW_VALUES


def assert_within(judge: Oracle, found: Difference) -> None:
    promise = judge.promise(judge.graph, found.node)
    assert found.largest <= promise.steps, found
    count, total = found.share
    assert count <= promise.most(total) or found.values < FEW_VALUES, found
