#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#     scripts/coverage.sh [FOLDER]
#
# Runs the samples and Zephyr tests on native_sim with gcov, if FOLDER has not been left by twister
# for that, and prints which share of the lines and branches of each file of lib/vmcu they reach;
# fails under 90 % of the lines. Needs a Zephyr tree, see common.sh, and gcovr.

set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

LEAST=90

if ! ZEPHYR_BASE=$(find_zephyr); then
	echo "no Zephyr tree: set ZEPHYR_BASE"
	exit 1
fi
export ZEPHYR_BASE
enter_venv
choose_toolchain
out=${1:-}
if [ -z "$out" ]; then
	out=$ROOT/build/test/coverage
	rm -rf "$out"
	quietly coverage-twister "$ZEPHYR_BASE/scripts/twister" -T "$ROOT/samples" -T "$ROOT/tests" \
		-p native_sim --enable-coverage -x=EXTRA_ZEPHYR_MODULES="$ROOT" -O "$out" -v
fi
gcovr --root "$ROOT" --filter "$ROOT/lib/vmcu/" --merge-mode-functions merge-use-line-max \
	--txt-metric line --txt-metric branch --print-summary --fail-under-line "$LEAST" "$out"
