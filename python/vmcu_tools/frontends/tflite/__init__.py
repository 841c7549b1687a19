# SPDX-License-Identifier: Apache-2.0
""".tflite to Graph."""
