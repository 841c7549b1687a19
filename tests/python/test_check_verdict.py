# SPDX-License-Identifier: Apache-2.0
"""The sentences about a checked image say what was checked and what was not."""

from __future__ import annotations

from vmcu_check.images.check import Verdict

REST = "; those of {} others, if any, are not compared"


def test_all_that_can_be_said() -> None:
    verdict = Verdict("m_model", (1200, 34), 4, 7, 2, ("layer 1 (vmcu_conv)",), 3, True)
    assert list(verdict.lines()) == [
        "m_model: plan of 4 layers in 1,200 + 34 bytes, 7 hops: no fault",
        "m_model: not checked: the tasks and waits of two workers",
        "m_model: constants of 2 layers equal the file's" + REST.format(2),
        "m_model: not compared: layer 1 (vmcu_conv): the file has no such weights",
        "m_model: outputs of 3 inputs equal the file's in its runtime",
    ]


def test_a_plan_alone() -> None:
    assert list(Verdict("m_model", (12,), 4, 1, 0, (), 0, False).lines()) == [
        "m_model: plan of 4 layers in 12 bytes: no fault",
        "m_model: not run",
    ]


def test_all_constants() -> None:
    assert list(Verdict("m_model", (12,), 4, 2, 4, (), 0, False).lines()) == [
        "m_model: plan of 4 layers in 12 bytes, 2 hops: no fault",
        "m_model: constants of 4 layers equal the file's",
        "m_model: not run",
    ]
    one_more = list(Verdict("m_model", (12,), 5, 2, 4, (), 0, False).lines())[1]
    assert one_more.endswith(REST.format(1))
