# SPDX-License-Identifier: Apache-2.0
""".onnx to Graph."""
