# SPDX-License-Identifier: Apache-2.0
"""`python -m vmcu_tools`."""

import sys

from .entry import main

sys.exit(main())
