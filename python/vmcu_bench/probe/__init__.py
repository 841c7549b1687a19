# SPDX-License-Identifier: Apache-2.0
"""The host's side of vmcu/probe.h: firmware that runs inputs from a serial port."""
