#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# zephyr_compilers.sh FOLDER: writes into FOLDER what Zephyr finds by CROSS_COMPILE=FOLDER/riscv32-,
# FOLDER/riscv64- and FOLDER/i386-: this computer's GCC for boards of QEMU, without Zephyr's SDK.
# Zephyr expects other names, and libraries where these compilers do not look without options.

set -euo pipefail

folder=$1
mkdir -p "$folder"

# add NAME PREFIX <COMPILER: the programs NAME-* from PREFIX*, where these are installed, the compiler
# from standard input.
add() {
	local name=$1 prefix=$2 program

	command -v "${prefix}gcc" >/dev/null || return 0
	{
		echo '#!/usr/bin/env bash'
		cat
	} >"$folder/$name-gcc"
	chmod +x "$folder/$name-gcc"
	for program in ar as ld ld.bfd nm objcopy objdump ranlib readelf size strip; do
		ln -sf "$(command -v "$prefix$program")" "$folder/$name-$program"
	done
}

# GCC 12 chooses a library of the wrong ABI if -march names the extensions of CSRs and fences, or if a
# link has no -march; the assembler requires both names.
for core in "riscv32 rv32imac ilp32" "riscv64 rv64imac lp64"; do
	read -r name march mabi <<<"$core"
	add "$name" riscv64-unknown-elf- <<-END
		own=(riscv64-unknown-elf-gcc -march=$march -mabi=$mabi)
		case " \$* " in
		*" -c "* | *" -S "* | *" -E "*) exec "\${own[@]}" "\$@" ;;
		esac
		exec "\${own[@]}" "\${@//_zicsr_zifencei/}"
	END
done
# Debian's GCC has limits.h among all other headers.
add i386 "" <<-'END'
	exec gcc -m32 "${@/include-fixed/include}"
END
