# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What setup.sh, demo and test share; sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
LOGS=$ROOT/build/logs
# Where Debian and Ubuntu keep compilers by the names of those that ccache then calls.
CCACHE_LINKS=/usr/lib/ccache

say() {
	printf '== %s\n' "$*"
}

# The Zephyr trees to test with, a line each: all of ZEPHYR_BASES (with colons in between), else
# ZEPHYR_BASE, else the usual place. Fails where one of them is none.
find_zephyrs() {
	local tree trees missing=0

	IFS=: read -ra trees <<<"${ZEPHYR_BASES:-${ZEPHYR_BASE:-$HOME/zephyrproject/zephyr}}"
	for tree in "${trees[@]}"; do
		if [ -f "$tree/scripts/zephyr_module.py" ]; then
			printf '%s\n' "$tree"
		else
			missing=1
		fi
	done
	return $missing
}

# The first of them, or a failure.
find_zephyr() {
	local trees

	trees=$(find_zephyrs) || true
	[ -n "$trees" ] && printf '%s\n' "${trees%%$'\n'*}"
}

# Such as 3.7.1.
zephyr_version() {
	sed -n 's/^\(VERSION_MAJOR\|VERSION_MINOR\|PATCHLEVEL\) *= *//p' "$1/VERSION" | paste -sd .
}

has() {
	command -v "$1" >/dev/null 2>&1
}

# Zephyr with its own SDK needs nothing; otherwise Debian's compiler will do.
choose_toolchain() {
	if [ -z "${ZEPHYR_TOOLCHAIN_VARIANT:-}" ] && [ -z "${ZEPHYR_SDK_INSTALL_DIR:-}" ] &&
		has arm-none-eabi-gcc; then
		export ZEPHYR_TOOLCHAIN_VARIANT=gnuarmemb
		GNUARMEMB_TOOLCHAIN_PATH=$(
			"$VENV/bin/python" - "$(command -v arm-none-eabi-gcc)" <<-'END'
				import sys
				from pathlib import Path

				from vmcu_bench.runners.workspace import toolchain_folder

				print(toolchain_folder(Path(sys.argv[1])))
			END
		)
		export GNUARMEMB_TOOLCHAIN_PATH
	fi
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
	# Tests start hundreds of commands: none compiles the modules again,
	unset PYTHONDONTWRITEBYTECODE
	# nor the same C, whatever folder it is in.
	[ ! -d "$CCACHE_LINKS" ] || PATH=$CCACHE_LINKS:$PATH
	PATH=$VENV/bin:$PATH
	export PATH PYTHONPYCACHEPREFIX=$ROOT/build/pycache CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${TMPDIR:-/tmp}
}
