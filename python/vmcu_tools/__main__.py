# SPDX-License-Identifier: Apache-2.0
"""`python -m vmcu_tools`."""

import sys

from .cli import main

sys.exit(main())
