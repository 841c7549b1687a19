# SPDX-License-Identifier: Apache-2.0
"""The kernels, each written once. FILES: the programs of each generated C file."""

from . import add, conv, dense, depthwise, pool, products

FILES = {
    "pointwise": [conv.pointwise()],
    "dense": [dense.dense()],
    "depthwise": depthwise.programs(),
    "conv": [conv.conv()],
    "products": products.PROGRAMS,
    "add": add.PROGRAMS,
    "pool": pool.PROGRAMS,
}
PROGRAMS = {program.symbol: program for group in FILES.values() for program in group}
