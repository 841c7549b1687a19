# SPDX-License-Identifier: Apache-2.0
"""Kernels that a container names: which the loader can link, and a refusal of any other."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from builders.containers import changed
from layer_checks import Checks
from vmcu_tools import container, paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.ops.kernel_type import KERNEL_TYPES, KernelType
from vmcu_tools.ops.values import CStruct

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"


@pytest.mark.parametrize(
    "words",
    [("verify", "--on", "host"), ("bench",), ("container", "kernels")],
    ids=lambda words: words[0],
)
def test_a_kernel_that_is_not_there_is_named(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = container.build(compile_model(DIGITS), "digits")
    at = image.index(b"vmcu_pointwise\0") + len("vmcu_pointwis")
    path = tmp_path / "later.vmcu"
    path.write_bytes(changed(image, at, "B", ord("x")))
    verbs, options = (words, ()) if words[0] == "container" else (words[:1], words[1:])
    assert main([*verbs, str(path), *options]) == 1
    said = capsys.readouterr().err
    assert (
        said.startswith(f"error: {path}: it needs the kernel 'vmcu_pointwisx'") and "hint" in said
    )


def test_each_kernel_of_an_op_is_linked(loader: ctypes.CDLL) -> None:
    """container/all.c lists the kernels that ops declare; this build has no models with state."""
    wanted = {symbol for symbol, kind in KERNEL_TYPES.items() if not kind.streams}
    assert set(Checks(loader).found) == wanted and len(KERNEL_TYPES) > len(wanted) > 35


def test_a_pointer_that_nothing_checks_is_refused() -> None:
    params = CStruct("vmcu_some_params", "const int8_t *some, *other; bool flag;")
    for arrays in ({}, {"some": "4U"}):
        with pytest.raises(TypeError, match=r"vmcu_some: .*'other'"):
            KernelType("vmcu_some", params, "vmcu_check_calls(c)", arrays=arrays)
    with pytest.raises(TypeError, match="vmcu_none: nothing checks"):
        KernelType("vmcu_none", None)
    assert not {"vmcu_some", "vmcu_none"} & KERNEL_TYPES.keys()
