# SPDX-License-Identifier: Apache-2.0
"""The kernels, each written once. FILES: the programs of each generated C file."""

from . import conv, dense

REQUANTS = ("fixed", "float")

FILES = {
    "pointwise": [conv.pointwise(requant) for requant in REQUANTS],
    "dense": [dense.dense(requant) for requant in REQUANTS],
    "conv": [conv.conv(requant) for requant in REQUANTS],
}
PROGRAMS = {program.symbol: program for group in FILES.values() for program in group}
