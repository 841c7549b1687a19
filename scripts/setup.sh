#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh [demo|dev] [-y]: installs what ./demo, or development and ./test, need: Debian or Ubuntu
# packages, and a Python environment in .venv. It asks before it calls apt; -y agrees. Without a
# terminal and without -y it does not call apt. It prints what is missing, and what does not work
# without it. A second run takes a second.

set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

LEVEL=dev
AGREED=
for argument in "$@"; do
	case $argument in
	demo | dev) LEVEL=$argument ;;
	-y) AGREED=yes ;;
	*)
		echo "usage: $(basename "$0") [demo|dev] [-y]" >&2
		exit 2
		;;
	esac
done
MISSING=()

# need PACKAGE CHECK...: the package is missing unless the check succeeds.
need() {
	local package=$1

	shift
	"$@" >/dev/null 2>&1 || MISSING+=("$package")
}

has_venv() {
	python3 -c 'import venv, ensurepip'
}

has_m32() {
	local folder

	folder=$(mktemp -d) || return 1
	echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o "$folder/a.out"
	local result=$?
	rm -rf "$folder"
	return $result
}

list_missing() {
	MISSING=()
	need python3 has python3
	need python3-venv has_venv
	need gcc has gcc
	need libc6-dev test -e /usr/include/stdio.h
	need cmake has cmake
	need ninja-build has ninja
	need gcc-arm-none-eabi has arm-none-eabi-gcc
	need libnewlib-arm-none-eabi has_newlib
	need qemu-system-arm has qemu-system-arm
	[ "$LEVEL" = dev ] || return 0
	need gcc-riscv64-unknown-elf has riscv64-unknown-elf-gcc
	need libnewlib-dev test -e /usr/include/newlib/string.h
	need qemu-system-misc has qemu-system-riscv32
	need ccache has ccache
	need cppcheck has cppcheck
	need doxygen has doxygen
	if find_zephyr >/dev/null; then
		need git has git
		need device-tree-compiler has dtc
		need gperf has gperf
		need qemu-system-x86 has qemu-system-i386
		[ "$(uname -m)" != x86_64 ] || need gcc-multilib has_m32
	fi
}

# may_install PACKAGE...: whether the user agrees to apt.
may_install() {
	local answer

	[ -z "$AGREED" ] || return 0
	if ! [ -t 0 ]; then
		say "no terminal to ask: apt is not used; -y agrees to it"
		return 1
	fi
	read -r -p "Install these with apt: $*? [y/N] " answer
	[[ $answer == [yY]* ]]
}

# install_packages PACKAGE...
install_packages() {
	local sudo=()

	if ! has apt-get; then
		say "no apt-get here; please install: $*"
		return
	fi
	if [ "$(id -u)" -ne 0 ]; then
		if ! sudo -n true 2>/dev/null; then
			say "neither root nor sudo; please install: $*"
			return
		fi
		sudo=(sudo)
	fi
	may_install "$@" || return 0
	say "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	quietly apt-update "${sudo[@]}" apt-get update -q || true
	quietly apt-install "${sudo[@]}" apt-get install -q -y --no-install-recommends \
		-o APT::Keep-Downloaded-Packages=false "$@" ||
		say "some packages could not be installed; continuing without"
}

# For tests of pages, on their own and once: not every system has these packages.
add_browser() {
	local stamp=$VENV/.vmcu-browser

	if has chromium && has chromedriver || [ -e "$stamp" ]; then
		return 0
	fi
	install_packages chromium chromium-driver
	touch "$stamp"
	has chromedriver || say "without chromium-driver: no tests of pages in a browser"
}

# On its own and once, for the same reason: static checks of the C.
add_frama_c() {
	local stamp=$VENV/.vmcu-frama-c

	if has frama-c || [ -e "$stamp" ]; then
		return 0
	fi
	install_packages frama-c-base
	touch "$stamp"
	has frama-c || say "without frama-c: no proof that the C has no undefined behaviour"
}

# What is missing after all decides what can still be done.
explain_missing() {
	[ ${#MISSING[@]} -gt 0 ] || return 0
	say "still missing: ${MISSING[*]}"
	echo "   install them: apt-get install --no-install-recommends ${MISSING[*]}"
	has_emulator || say "without the Arm compiler and QEMU: no emulated boards, host only"
	has gcc || say "without gcc: nothing runs but the virtual machine"
}

python_ok() {
	has python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'
}

pip_install() {
	local name=$1

	shift
	quietly "pip-$name" "$VENV/bin/python" -m pip install -q --disable-pip-version-check "$@"
}

# once NAME FILE...: true where the files have changed since `done_once NAME FILE...`.
once() {
	local stamp=$VENV/.vmcu-$1

	shift
	[ "$(cat "$stamp" 2>/dev/null)" != "$(cat "$@" | sha256sum)" ]
}

done_once() {
	local stamp=$VENV/.vmcu-$1

	shift
	cat "$@" | sha256sum >"$stamp"
}

make_venv() {
	local project=$ROOT/pyproject.toml extras=

	if ! [ -x "$VENV/bin/python" ]; then
		say "making .venv"
		quietly venv python3 -m venv "$VENV"
	fi
	# An environment for development has what the demo needs.
	if once dev "$project" && { [ "$LEVEL" = dev ] || once demo "$project"; }; then
		say "installing the Python packages; the first time this takes a minute or two"
		[ "$LEVEL" = demo ] || extras=dev,
		if ! pip_install tools -e "$ROOT[${extras}verify]"; then
			say "no wheel of tflite-micro for this Python? trying with ONNX Runtime alone"
			pip_install tools -e "$ROOT[${extras}quantize]"
		fi
		done_once "$LEVEL" "$project"
	fi
	has cmake || pip_install cmake cmake
	has ninja || pip_install ninja ninja
}

# What Zephyr's own build and twister import.
add_zephyr_packages() {
	local trees tree files=() file

	mapfile -t trees < <(find_zephyrs)
	for tree in "${trees[@]}"; do
		for file in requirements-base.txt requirements-build-test.txt; do
			[ ! -f "$tree/scripts/$file" ] || files+=("$tree/scripts/$file")
		done
	done
	[ ${#files[@]} -gt 0 ] || return 0
	once zephyr "${files[@]}" || return 0
	say "installing the Python packages of ${trees[*]}"
	if pip_install zephyr "${files[@]/#/-r}" tabulate natsort; then
		done_once zephyr "${files[@]}"
	else
		say "not all of them could be installed; twister may fail"
	fi
}

list_missing
if [ ${#MISSING[@]} -gt 0 ]; then
	install_packages "${MISSING[@]}"
fi
if ! python_ok; then
	say "vmcu needs Python 3.10 or newer; here is $(python3 -V 2>/dev/null || echo none)"
	exit 1
fi
if ! has_venv; then
	say "python3-venv is missing: .venv cannot be made. Install it, or call this with -y"
	exit 1
fi
make_venv
if [ "$LEVEL" = dev ]; then
	add_zephyr_packages
	add_browser
	add_frama_c
fi
enter_venv
list_missing
explain_missing
say "setup: ready"
