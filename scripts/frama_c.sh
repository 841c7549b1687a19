#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#     scripts/frama_c.sh [hello|gesture|container|digits ...]
#
# Compiles samples, gives them any input, and has Frama-C's Eva prove that the runtime and its kernels
# have no undefined behaviour: no access out of bounds, no overflow, no division by zero. gesture is a
# stream, container the sample hello as a container that is loaded. Prints the alarms of each file;
# exits 1 if there is one, 2 without Frama-C. VMCU_ROOT is the tree that is proven.

set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

LIBRARY=${VMCU_ROOT:-$ROOT}/lib/vmcu
OUT=$ROOT/build/test/frama-c
# Of each proof: the sample and its options, the sources below lib/vmcu, and what any_input.c needs to
# know: inferences that are cancelled, by so many calls of kernels apart.
declare -A MODELS=([hello]=hello [gesture]="gesture --hop 1" [container]="hello --format container"
	[digits]=digits)
declare -A SOURCES=([hello]="kernels/gen/dense.c"
	[gesture]="stream.c kernels/look_back.c kernels/gen/dense.c"
	[container]="kernels/gen/dense.c container/gen/kernels.c"
	[digits]="kernels/gen/add.c kernels/gen/conv.c kernels/gen/dense.c kernels/gen/depthwise.c
		kernels/gen/pooling.c")
declare -A DEFINES=([hello]="-DCANCELLED=8 -DBETWEEN=1"
	[gesture]="-DCANCELLED=4 -DBETWEEN=5 -DVMCU_STREAMS"
	[container]="-DCANCELLED=8 -DBETWEEN=1 -DVMCU_CONTAINERS -DVMCU_CONTAINER_REPLAY"
	[digits]="-DCANCELLED=1 -DBETWEEN=0")
# Functions whose outcomes are kept apart, and whatever compares with NULL. All else: one state.
APART=(main infer load keep_state vmcu_state_restore check_file load_parts vmcu_init vmcu_pool_bind
	vmcu_model_load_as unbind_context vmcu_{in,out}put{,_size} {in,out}put_tensor)
# Frama-C gives a function's attributes to its type, and loses a struct that it returns; it knows
# memcpy() and memset() by these names only. any_input.c cancels inferences: with volatile, every row
# would be computed and not, and the counts of calls in the pool would be lost.
PREPARED="-Dcold= -Dhot= -Dvolatile= -D__builtin_memcpy=memcpy -D__builtin_memset=memset -D'__asm__(...)=' -D'_Static_assert(...)=' -include string.h"
# Kernels multiply lanes of scratch behind the last tap, which nothing writes, by zero: locals have any
# value. Loops are unrolled, those over a container's bytes, too. tests/c/contracts.c checks the
# contracts of functions whose masks and bits of a float Frama-C does not see through.
OPTIONS=(-machdep gcc_x86_32 -eva-initialized-locals -eva-slevel 0 -eva-split-return auto
	-eva-min-loop-unroll 1000 -eva-use-spec vmcu_to_integer_hard,vmcu_at_least,vmcu_at_most)

# functions LOG: each of APART by the name that a build's options give it.
functions() {
	local all=" $(sed -n 's/^.*[ *]\([a-z_]*\)(.*/\1/p' "$1" | sort -u | tr '\n' ' ')" name found

	for name in "${APART[@]}"; do
		for found in $(grep -o " ${name}\(_with[a-z_]*\)\? " <<<"$all"); do
			printf '%s:50,' "$found"
		done
	done | sed 's/,$//'
}

# prove NAME: prints its alarms; 1 if it has any.
prove() {
	local name=$1 out=$OUT/$1 model defines sources flags

	rm -rf "$out" && mkdir -p "$out"
	read -r -a model <<<"${MODELS[$name]}"
	read -r -d '' -a sources <<<"${SOURCES[$name]}"
	sources=("${sources[@]/#/$LIBRARY/}")
	defines=${DEFINES[$name]}
	vmcu build "$ROOT/samples/${model[0]}/${model[0]}.onnx" "${model[@]:1}" --target portable \
		--quiet -o "$out" || return
	if [[ $defines == *VMCU_CONTAINERS* ]]; then
		vmcu container kernels "$out/${model[0]}.vmcu" >"$out/${model[0]}.c" || return
		od -An -v -tu1 "$out/${model[0]}.vmcu" | sed 's/ *\([0-9]\+\)/\1,/g' >"$out/container.inc"
		sources+=("$LIBRARY"/container/{arena,check,counts,endless,external,file,gap,hops,link,load}.c)
		sources+=("$LIBRARY"/container/{macs,marks,pixels,reads,replay,segments,sha256,strips}.c)
		sources+=("$LIBRARY"/container/{tables,walk,windows}.c)
	else
		defines+=" -include $out/${model[0]}.h"
	fi
	flags="-I$LIBRARY -I$LIBRARY/include -I$out $PREPARED -DMODEL=${model[0]} -DVMCU_PROBE $defines"
	sources=("$ROOT/tests/c/any_input.c" "$out/${model[0]}.c"
		"$LIBRARY"/{executor,stage,kernels/support}.c "${sources[@]}")
	frama-c -machdep gcc_x86_32 -cpp-extra-args="$flags" "${sources[@]}" -print >"$out/code" 2>&1
	timeout 900 frama-c "${OPTIONS[@]}" -eva-slevel-function "$(functions "$out/code")" \
		-cpp-extra-args="$flags" "${sources[@]}" -eva >"$out/log" 2>&1
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
mkdir -p "$OUT"
if ! cc -O3 -ffp-contract=off -I"$LIBRARY/include" "$ROOT/tests/c/contracts.c" -o "$OUT/contracts" ||
	! "$OUT/contracts"; then
	echo "contracts: a function does not keep its own"
	exit 1
fi
[ $# -gt 0 ] || set -- "${!MODELS[@]}"
FAILED=0
for NAME in "$@"; do
	prove "$NAME" || FAILED=1
done
exit $FAILED
