# SPDX-License-Identifier: Apache-2.0
"""A network that PyTorch's own quantiser, PT2E of torchao, makes int8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vmcu_tools.cli import main
from vmcu_tools.frontends import load

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="no torchao")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

from torch import nn  # noqa: E402
from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack  # noqa: E402

SHAPE = (1, 3, 16, 16)


class Network(nn.Module):  # type: ignore[misc] # PyTorch may be missing
    """Convolutions, one of them depthwise, a sum, a mean and a layer of classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.third = nn.Conv2d(8, 8, 3, stride=2)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.first(x).relu()
        x = self.third(self.second(x).relu() + x).relu()
        return self.last(x.mean((2, 3)))


@pytest.mark.parametrize("per_channel", [False, True])
def test_an_exported_network_is_exact(per_channel: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sample = (torch.randn(SHAPE),)
    quantizer = xnnpack.XNNPACKQuantizer()
    config = xnnpack.get_symmetric_quantization_config(is_per_channel=per_channel)
    quantizer.set_global(config)
    exported = torch.export.export(Network().eval(), sample).module()
    prepared = pt2e.prepare_pt2e(exported, quantizer)
    for _ in range(8):
        prepared(torch.randn(SHAPE))
    path = tmp_path / "net.onnx"
    torch.onnx.export(pt2e.convert_pt2e(prepared), sample, str(path), dynamo=True)
    layers = [node.kind for node in load(path).nodes]
    assert layers.count("Conv2D") == 2 and "DepthwiseConv2D" in layers
    assert main(["verify", str(path), "-n", "5", "-q"]) == 0
