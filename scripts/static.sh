#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Static checks: formatting, spelling, types, and of lib/vmcu the compiler's strictest warnings for this
# computer and for Cortex-M, cppcheck with its MISRA addon, and Frama-C. What is not there is said and left out.

set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

WARNINGS=(-std=c99 -O2 -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror
	-ffp-contract=off -fsyntax-only -Ilib/vmcu/include)
# Without generated C, whose form is its printer's.
mapfile -t FORMATTED < <(cd "$ROOT" && git ls-files '*.c' '*.h' | grep -v '/gen/')
mapfile -t SOURCES < <(cd "$ROOT" && git ls-files 'lib/vmcu/*.c' | grep -v '/port/\|/container/')
# What loads models, and the rest as it is then.
mapfile -t LOADER < <(cd "$ROOT" && git ls-files 'lib/vmcu/container/*.c')
LOADING=(-DVMCU_CONTAINERS -DVMCU_ONLINE_PLANNER -DVMCU_CONTAINER_REPLAY -DVMCU_STREAMS
	"${LOADER[@]}" "${SOURCES[@]}")
FAILED=0
BEHIND=()

# check NAME COMMAND...: says whether it passed.
check() {
	local name=$1

	shift
	if "$@"; then
		echo "$name: clean"
	else
		echo "$name: FAILED"
		FAILED=1
		return 1
	fi
}

# behind NAME COMMAND...: runs it beside the others; `collect` waits, shows what it prints and whether it
# passed.
behind() {
	local name=$1

	shift
	"$@" >"$LOGS/$name" 2>&1 &
	BEHIND+=("$! $name")
}

collect() {
	local one process name

	for one in "${BEHIND[@]}"; do
		read -r process name <<<"$one"
		wait "$process" || FAILED=1
		cat "$LOGS/$name"
	done
}

format() {
	clang-format --dry-run --Werror "${FORMATTED[@]}"
}

spelling() {
	mapfile -t files < <(git ls-files)
	codespell "${files[@]}"
}

misra() {
	cppcheck --std=c99 --addon=misra --enable=warning,style,performance,portability --quiet -j2 \
		--template='{file}:{line}: {id}: {message}' -DVMCU_STATIC_CHECK -Ilib/vmcu/include \
		"$@" >>"$LOGS/cppcheck" 2>&1
}

# Leaves what cppcheck prints in build/logs/cppcheck, from which scripts/misra.py writes the page's table.
all_misra() {
	: >"$LOGS/cppcheck"
	check "cppcheck" misra "${SOURCES[@]}"
	check "cppcheck, external weights" misra -DVMCU_EXTERNAL_WEIGHTS lib/vmcu/weights.c
	check "cppcheck, probe" misra -DVMCU_PROBE lib/vmcu/probe.c
	check "cppcheck, containers" misra -DVMCU_CONTAINERS -DVMCU_ONLINE_PLANNER -DVMCU_CONTAINER_REPLAY \
		-DVMCU_STREAMS "${LOADER[@]}"
	check "MISRA deviations" python scripts/misra.py "$LOGS/cppcheck"
	return $FAILED
}

cd "$ROOT" || exit 1
enter_venv
mkdir -p "$LOGS"
# Before cppcheck, whose files beside the sources have no licence.
check "reuse" reuse lint -q
# Half of all CPU time.
if has cppcheck; then
	behind misra all_misra
else
	echo "cppcheck: skipped, not installed"
fi
if has frama-c; then
	behind frama-c check "Frama-C" scripts/frama_c.sh
else
	echo "Frama-C: skipped, not installed"
fi
check "clang-format" format
check "codespell" spelling
# Strict: see pyproject.toml.
check "mypy" mypy
if has gcc; then
	check "gcc" gcc "${WARNINGS[@]}" "${SOURCES[@]}"
	# Zephyr's default from 4.4 on.
	check "gcc, C17" gcc "${WARNINGS[@]}" -std=c17 -Wpedantic "${SOURCES[@]}"
	check "gcc, probe" gcc -DVMCU_PROBE "${WARNINGS[@]}" lib/vmcu/probe.c lib/vmcu/executor.c
	check "gcc, external weights" gcc -DVMCU_EXTERNAL_WEIGHTS "${WARNINGS[@]}" "${SOURCES[@]}"
	check "gcc, containers" gcc "${WARNINGS[@]}" "${LOADING[@]}"
fi
if has arm-none-eabi-gcc; then
	check "Cortex-M3" arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb -ffreestanding \
		"${WARNINGS[@]}" "${SOURCES[@]}"
	check "Cortex-M4" arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard \
		-mfpu=fpv4-sp-d16 -ffreestanding "${WARNINGS[@]}" "${SOURCES[@]}"
	check "Cortex-M4, containers" arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard \
		-mfpu=fpv4-sp-d16 -ffreestanding "${WARNINGS[@]}" "${LOADING[@]}"
fi
collect
exit $FAILED
