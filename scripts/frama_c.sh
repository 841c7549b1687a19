#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#     scripts/frama_c.sh [hello|digits ...]
#
# Compiles samples, gives them any input, and has Frama-C's Eva prove that the runtime and its kernels
# have no undefined behaviour: no access out of bounds, no overflow, no division by zero. Prints the
# alarms of each file; exits 1 if there is one, 2 without Frama-C. VMCU_ROOT is the tree that is proven.

set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

LIBRARY=${VMCU_ROOT:-$ROOT}/lib/vmcu
OUT=$ROOT/build/test/frama-c
declare -A KERNELS=([hello]="dense" [digits]="add conv dense depthwise pooling")
# vmcu_init() and what returns NULL: both cases apart. All else: one state, all loops unrolled.
APART=(main vmcu_init vmcu_pool_bind unbind_context vmcu_{in,out}put{,_size} {in,out}put_tensor)
# Frama-C gives a function's attributes to its type, and loses a struct that it returns; it knows
# memcpy() and memset() by these names only. any_input.c cancels before an inference: with volatile,
# every row would be computed and not, and the counts of calls in the pool would be lost.
PREPARED="-Dcold= -Dhot= -Dvolatile= -D__builtin_memcpy=memcpy -D__builtin_memset=memset -D'__asm__(...)=' -include string.h"
# Kernels multiply lanes of scratch behind the last tap, which nothing writes, by zero: locals have any value.
OPTIONS=(-machdep gcc_x86_32 -eva-initialized-locals -eva-slevel 0
	-eva-min-loop-unroll 300 -eva-split-return auto
	-eva-slevel-function "$(printf '%s:50,' "${APART[@]}" | sed 's/,$//')")

# prove NAME: prints its alarms; 1 if it has any.
prove() {
	local name=$1 out=$OUT/$1 sources

	mkdir -p "$out"
	vmcu build "$ROOT/samples/$name/$name.onnx" --target portable --quiet -o "$out" || return
	read -r -a sources <<<"${KERNELS[$name]}"
	sources=("${sources[@]/#/$LIBRARY/kernels/gen/}")
	timeout 900 frama-c "${OPTIONS[@]}" \
		-cpp-extra-args="-I$LIBRARY/include -I$out $PREPARED -include $out/$name.h -DMODEL=$name" \
		"$ROOT/tests/c/any_input.c" "$out/$name.c" "$LIBRARY"/{executor,stage,kernels/support}.c \
		"${sources[@]/%/.c}" -eva >"$out/log" 2>&1
	sed -n 's|^\[eva:alarm\] \([^:]*\):[0-9]*: Warning:.*|\1|p' "$out/log" | sort | uniq -c
	grep -A2 "^\[eva:alarm\]" "$out/log" && return 1
	# It ended, the outputs have several values, and no function was without code or contract.
	if ! grep -q "^ *0 alarms generated" "$out/log" || grep -q "default assigns\|be dead" "$out/log" ||
		! grep -q "Frama_C_show_each_output: *\[" "$out/log"; then
		tail -n 5 "$out/log"
		echo "$name: Frama-C proved nothing, see $out/log"
		return 1
	fi
	echo "$name: 0 alarms"
}

has frama-c || exit 2
enter_venv
[ $# -gt 0 ] || set -- "${!KERNELS[@]}"
FAILED=0
for NAME in "$@"; do
	prove "$NAME" || FAILED=1
done
exit $FAILED
