#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds doc/ into build/docs/html: Doxygen reads the headers, Sphinx the pages. A warning is an error.

set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

cd "$ROOT"
enter_venv
rm -rf build/docs
mkdir -p build/docs
doxygen doc/Doxyfile
sphinx-build -q -W --keep-going -b html doc build/docs/html
echo "docs: build/docs/html/index.html"
