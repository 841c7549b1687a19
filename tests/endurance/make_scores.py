# SPDX-License-Identifier: Apache-2.0
"""Writes src/scores.h: what ONNX Runtime makes of the digits sample's test images, byte by byte.

Needs onnx and onnxruntime; the file is committed. A second run gives the same bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "samples" / "digits"


def images() -> np.ndarray:
    """int8 (images, 64), as test_images.h has them."""
    text = (DIGITS / "src" / "test_images.h").read_text()
    table = text[text.index("test_images[") :]
    rows = re.findall(r"\{(-?\d[-\d,\s]*)\}", table[: table.index("};")])
    return np.array([np.fromstring(row, sep=",") for row in rows]).astype(np.int8)


def constant(model: onnx.ModelProto, name: str) -> np.ndarray:
    found = next(entry for entry in model.graph.initializer if entry.name == name)
    return onnx.numpy_helper.to_array(found)


def scores() -> np.ndarray:
    """int8 (images, 10): the model's outputs in front of its last DequantizeLinear."""
    model = onnx.load(DIGITS / "digits.onnx")
    first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    last = model.graph.node[-1]
    assert last.op_type == "DequantizeLinear"
    scale, zero = (constant(model, name) for name in first.input[1:])
    quantised = onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.INT8, None)
    model.graph.output.append(quantised)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    found = []
    for image in images():
        real = (image.astype(np.float32) - np.float32(zero)) * np.float32(scale)
        given = {entry.name: real.reshape(1, 1, 8, 8)}
        found.append(session.run([last.input[0]], given)[0].ravel())
    return np.array(found)


def main() -> None:
    lines = [", ".join(map(str, row)) for row in scores()]
    body = "\n".join(f"\t{{{line}}}," for line in lines)
    (HERE / "src" / "scores.h").write_text(f"""/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by make_scores.py: what ONNX Runtime makes of the digits sample's test images.
 */

#ifndef ENDURANCE_SCORES_H_
#define ENDURANCE_SCORES_H_

#include <stdint.h>

#define SCORES_BYTES {scores().shape[1]}

/* clang-format off */
static const int8_t scores[{len(lines)}][SCORES_BYTES] = {{
{body}
}};
/* clang-format on */

#endif /* ENDURANCE_SCORES_H_ */
""")


if __name__ == "__main__":
    main()
