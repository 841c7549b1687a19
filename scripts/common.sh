# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What setup.sh, demo and test share; sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
LOGS=$ROOT/build/logs

say() {
	printf '== %s\n' "$*"
}

# The Zephyr tree to test with: prints its path, or fails.
find_zephyr() {
	local tree=${ZEPHYR_BASE:-$HOME/zephyrproject/zephyr}

	[ -f "$tree/scripts/zephyr_module.py" ] && printf '%s\n' "$tree"
}

has() {
	command -v "$1" >/dev/null 2>&1
}

# The Arm compiler with its C library, and the emulated boards.
has_emulator() {
	has arm-none-eabi-gcc && has qemu-system-arm && has_newlib
}

has_newlib() {
	[ -e "$(arm-none-eabi-gcc -print-file-name=nano.specs 2>/dev/null)" ]
}

# quietly NAME COMMAND...: the command's output is shown only if it fails.
quietly() {
	local log=$LOGS/$1.log

	shift
	mkdir -p "$LOGS"
	if ! "$@" >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		return 1
	fi
}

enter_venv() {
	PATH=$VENV/bin:$PATH
	export PATH
}
