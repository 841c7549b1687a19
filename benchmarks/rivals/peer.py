# SPDX-License-Identifier: Apache-2.0
"""Layers in CMSIS-NN, whose sources the caller names, on emulated cores."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from counted import counted  # noqa: E402
from vmcu_bench.cycles.model import board  # noqa: E402
from vmcu_bench.runners.base import RunnerError  # noqa: E402
from vmcu_bench.runners.qemu import QemuRunner  # noqa: E402
from vmcu_bench.runners.samples import make_samples  # noqa: E402
from vmcu_tools.boards.flash import Flash  # noqa: E402
from vmcu_tools.errors import Problem, UserError  # noqa: E402
from vmcu_tools.graph import Graph, Node  # noqa: E402
from vmcu_tools.machine import reference  # noqa: E402
from vmcu_tools.ops.add import Add  # noqa: E402
from vmcu_tools.ops.average_pooling import AveragePool2D  # noqa: E402
from vmcu_tools.ops.binary import Binary  # noqa: E402
from vmcu_tools.ops.conv2d import Conv2D  # noqa: E402
from vmcu_tools.ops.depthwise import DepthwiseConv2D  # noqa: E402
from vmcu_tools.ops.fully_connected import FullyConnected  # noqa: E402
from vmcu_tools.ops.max_pooling import MaxPool2D  # noqa: E402
from vmcu_tools.quant import FixedPoint  # noqa: E402

HEADER, MAIN = "arm_nnfunctions.h", Path(__file__).with_name("peer.c")
SCRATCH_BYTES = 1 << 16
# Steps by which CMSIS-NN's rounding may differ.
STEPS = 1
ACTIVATION = ".activation = {-128, 127}"
CONTEXT = "static const cmsis_nn_context context = {scratch, sizeof(scratch)};"


@dataclass(frozen=True)
class Peer:
    """What a layer takes. cycles: None on cores without timing rules; waits: for flash."""

    instructions: int
    cycles: int | None
    waits: int = 0


@dataclass(frozen=True)
class CmsisNn:
    """CMSIS-NN compiled for a machine. folder: its sources. level: of optimisation."""

    folder: Path
    machine: str
    level: str = "-O3"

    def __post_init__(self) -> None:
        if not (self.folder / "Include" / HEADER).is_file():
            reason, hint = f"it has no Include/{HEADER}", "name the folder of CMSIS-NN's sources"
            raise UserError(Problem(reason, hint, str(self.folder)))

    @property
    def board(self) -> QemuRunner:
        return board(self.machine)

    @property
    def flags(self) -> list[str]:
        """Those of code that includes its headers."""
        return [self.level, "-w", f"-isystem{self.folder / 'Include'}"]

    def archive(self, folder: Path) -> Path:
        """All its functions, compiled in a folder."""
        sources = sorted(map(str, self.folder.glob("Source/*/*.c")))
        # It calls memcpy() for single words.
        self.board.gcc(["-c", "-fhosted", *self.flags, *sources], folder)
        tool = self.board.toolchain.tool("ar")
        path = folder / "libcmsis-nn.a"
        objects = [f"{Path(source).stem}.o" for source in sources]
        subprocess.run([tool, "rcs", str(path), *objects], cwd=folder, check=True)
        return path

    def run(self, archive: Path, graph: Graph, node: Node, flash: Flash | None = None) -> Peer:
        """Counts a layer. Raises RunnerError where an output is off by more than a step."""
        sample = make_samples(graph, 1, 0, 0)[0]
        tensors = reference.run(graph, sample)
        with tempfile.TemporaryDirectory(prefix="vmcu-peer-") as name:
            folder = Path(name)
            (folder / "peer.h").write_text(source(graph, node))
            data = [tensors[one].astype(np.int8).tobytes() for one in node.inputs]
            (folder / "inputs.bin").write_bytes(b"".join(data))
            caches = None if flash is None else flash.caches
            files = [MAIN, archive]
            counts, spent = counted(self.board, folder, files, "run_layer", self.flags, caches)
            found = np.frombuffer((folder / "outputs.bin").read_bytes(), np.int8)
        off = np.abs(found - np.ravel(tensors[node.outputs[0]]).astype(np.int64)).max()
        if off > STEPS:
            raise RunnerError(f"{node.name}: CMSIS-NN's output is off by {off}")
        waits = 0 if flash is None else flash.stalls(counts)
        return Peer(counts.instructions, round(spent.total) or None, waits)


def source(graph: Graph, node: Node) -> str:
    """C that runs a layer: its constants, prepare() and run_layer()."""
    op = node.op
    writers = {
        Conv2D: convolution,
        DepthwiseConv2D: convolution,
        FullyConnected: dense,
        AveragePool2D: pooling,
        MaxPool2D: pooling,
        Add: addition,
        Binary: product,
    }
    if type(op) not in writers:
        raise RunnerError(f"{node.kind} has no peer in this script")
    ins = [graph.tensors[name] for name in node.inputs]
    out = graph.tensors[node.outputs[0]]
    text = writers[type(op)](op, ins, out)
    sizes = sum(tensor.bytes for tensor in ins), out.bytes
    return "\n".join(
        [
            *(f"#define {name} {size}" for name, size in zip(SIZES, sizes, strict=True)),
            f"static int8_t scratch[{SCRATCH_BYTES}] __attribute__((aligned(16)));",
            CONTEXT,
            text,
        ]
    )


SIZES = ("INPUT_BYTES", "OUTPUT_BYTES")
RUN = "__attribute__((noinline)) int run_layer(const int8_t *x, int8_t *y)\n{\n\t"
NOTHING = "static int prepare(void)\n{\n\treturn 0;\n}"


def array(kind: str, name: str, values: np.ndarray) -> str:
    """A constant array as C."""
    text = ", ".join(map(str, np.ravel(values).tolist()))
    return f"static const {kind} {name}[] __attribute__((aligned(16))) = {{{text}}};"


def dims(name: str, shape: Sequence[int]) -> str:
    """N, H, W, C as C."""
    return f"static const cmsis_nn_dims {name} = {{{', '.join(map(str, shape))}}};"


def offsets(ins: Sequence, out) -> str:  # type: ignore[no-untyped-def, type-arg]
    """Fields of the zero points."""
    return f".input_offset = {-ins[0].zero_point}, .output_offset = {out.zero_point}"


def tiles(op) -> str:  # type: ignore[no-untyped-def]
    """Fields of a window; CMSIS-NN has the width first."""
    window = op.window
    pairs = {"stride": window.stride, "padding": window.pad[:2]}
    return ", ".join(f".{name} = {{{x}, {y}}}" for name, (y, x) in pairs.items())


def convolution(op, ins, out) -> str:  # type: ignore[no-untyped-def]
    """A convolution or a depthwise one."""
    deep = isinstance(op, DepthwiseConv2D)
    high, wide = op.window.kernel
    depth = ins[0].shape[2]
    kernel = (1, high, wide, out.shape[2]) if deep else (out.shape[2], high, wide, depth)
    fields = [offsets(ins, out), tiles(op), ACTIVATION]
    dilation = op.window.dilation
    fields.append(f".dilation = {{{dilation[1]}, {dilation[0]}}}")
    if deep:
        fields.append(f".ch_mult = {out.shape[2] // depth}")
    kind = "dw_conv" if deep else "conv"
    call = "arm_depthwise_conv_wrapper_s8" if deep else "arm_convolve_wrapper_s8"
    return "\n".join(
        [
            array("int8_t", "weights", op.weights),
            array("int32_t", "bias", op.bias),
            array("int32_t", "multiplier", op.requant.multiplier),
            array("int32_t", "shift", op.requant.shift),
            f"static const cmsis_nn_{kind}_params params = {{{', '.join(fields)}}};",
            "static const cmsis_nn_per_channel_quant_params quant = "
            "{(int32_t *)multiplier, (int32_t *)shift};",
            dims("in_dims", (1, *ins[0].shape)),
            dims("kernel_dims", kernel),
            dims("bias_dims", (1, 1, 1, out.shape[2])),
            dims("out_dims", (1, *out.shape)),
            NOTHING,
            f"{RUN}return {call}(&context, &params, &quant, &in_dims, x, &kernel_dims, weights, "
            "&bias_dims, bias, &out_dims, y);\n}",
        ]
    )


def dense(op, ins, out) -> str:  # type: ignore[no-untyped-def]
    """A fully connected layer. With MVE, sums of the weights are computed beforehand."""
    outputs, depth = op.weights.shape
    requant: FixedPoint = op.requant
    return "\n".join(
        [
            array("int8_t", "weights", op.weights),
            array("int32_t", "bias", op.bias),
            f"static const cmsis_nn_fc_params params = {{{offsets(ins, out)}, {ACTIVATION}}};",
            "static const cmsis_nn_per_tensor_quant_params quant = "
            f"{{{requant.multiplier[0]}, {requant.shift[0]}}};",
            dims("in_dims", (1, 1, 1, depth)),
            dims("kernel_dims", (depth, 1, 1, outputs)),
            dims("bias_dims", (1, 1, 1, outputs)),
            dims("out_dims", (1, 1, 1, outputs)),
            "static int prepare(void)\n{\n#ifdef ARM_MATH_MVEI\n\treturn arm_vector_sum_s8("
            f"(int32_t *)scratch, {depth}, {outputs}, weights, 1, NULL);\n"
            "#endif\n\treturn 0;\n}",
            f"{RUN}return arm_fully_connected_s8(&context, &params, &quant, &in_dims, x, "
            "&kernel_dims, weights, &bias_dims, bias, &out_dims, y);\n}",
        ]
    )


def pooling(op, ins, out) -> str:  # type: ignore[no-untyped-def]
    """The maximum or the mean of a window."""
    call = "arm_max_pool_s8" if isinstance(op, MaxPool2D) else "arm_avgpool_s8"
    return "\n".join(
        [
            f"static const cmsis_nn_pool_params params = {{{tiles(op)}, {ACTIVATION}}};",
            dims("in_dims", (1, *ins[0].shape)),
            dims("kernel_dims", (1, *op.window.kernel, 1)),
            dims("out_dims", (1, *out.shape)),
            NOTHING,
            f"{RUN}return {call}(&context, &params, &in_dims, x, &kernel_dims, &out_dims, y);\n}}",
        ]
    )


def addition(op, ins, out) -> str:  # type: ignore[no-untyped-def]
    """TensorFlow Lite's sum of two tensors."""
    size = out.bytes
    parts = [f"x, x + {size}"]
    for tensor, factor in zip(ins, (op.sum.a, op.sum.b), strict=True):
        parts.append(f"{-tensor.zero_point}, {factor.multiplier[0]}, {factor.shift[0]}")
    last = op.sum.out
    parts += [f"{op.sum.left_shift}, y, {out.zero_point}, {last.multiplier[0]}, {last.shift[0]}"]
    return (
        f"{NOTHING}\n{RUN}return arm_elementwise_add_s8({', '.join(parts)}, -128, 127, {size});\n}}"
    )


def product(op, ins, out) -> str:  # type: ignore[no-untyped-def]
    """TensorFlow Lite's product of two tensors."""
    zeros = ", ".join(f"{-tensor.zero_point}" for tensor in ins)
    factor = f"{op.out.multiplier[0]}, {op.out.shift[0]}"
    call = f"x, x + {out.bytes}, {zeros}, y, {out.zero_point}, {factor}, -128, 127, {out.bytes}"
    return f"{NOTHING}\n{RUN}return arm_elementwise_mul_s8({call});\n}}"
