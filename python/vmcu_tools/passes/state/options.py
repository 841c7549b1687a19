# SPDX-License-Identifier: Apache-2.0
"""The options of streams and states, as problems name them, and two of their values."""

HOP_OPTION, STATE_OPTION, TIME_OPTION = "--hop", "--state", "--time"
NO_STATES, TIME_IN_COLUMNS = "none", "w"
