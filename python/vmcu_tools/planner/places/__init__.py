# SPDX-License-Identifier: Apache-2.0
"""In which order nodes run, and where every byte lies."""
