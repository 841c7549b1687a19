# SPDX-License-Identifier: Apache-2.0
"""The kernels, each written once. FILES: the programs of each generated C file."""

from . import add, conv, dense, depthwise, pool, products

FILES = {
    "conv": [conv.pointwise(), conv.conv()],
    "dense": [dense.dense()],
    "depthwise": depthwise.programs(),
    "products": products.PROGRAMS,
    "add": add.PROGRAMS,
    "pool": pool.PROGRAMS,
}
PROGRAMS = {program.symbol: program for group in FILES.values() for program in group}
