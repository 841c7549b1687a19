#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# empty_system.sh FOLDER [COMMAND...]: makes a Debian or Ubuntu of this machine's release in FOLDER
# with git and python3 only, and clones the last commit into it. It runs each COMMAND there, `./demo -y`
# by default, and then the commands that it printed as next steps. It prints seconds, MB and exit code
# of each, and exits 0 only if all of them did. FOLDER is kept, and used again if it exists.
#
# Needs root, debootstrap and the machine's configuration of apt and pip. BIND lists local folders
# that pip's configuration names, with blanks in between.

set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

if [ $# -eq 0 ] || [ "$(id -u)" -ne 0 ] || ! has debootstrap; then
	echo "usage, as root and with debootstrap: $(basename "$0") FOLDER [COMMAND...]" >&2
	exit 2
fi
SYSTEM=$(realpath -m "$1")
shift
FAILED=0

# The mirror that apt uses on this machine.
mirror() {
	apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Release: $1" | sed -n 1p
}

make_system() {
	local release path

	release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	quietly debootstrap debootstrap --variant=minbase --include=git,python3,ca-certificates \
		"$release" "$SYSTEM" "$(mirror "$release")"
	for path in /etc/apt /etc/pip.conf /etc/xdg/pip /root/.config/pip /root/.pip /etc/ssl/certs \
		/etc/resolv.conf /etc/hosts; do
		[ -e "$path" ] || continue
		rm -rf "${SYSTEM:?}$path"
		mkdir -p "$SYSTEM${path%/*}"
		cp -rL "$path" "$SYSTEM$path"
	done
}

# inside COMMAND: mounts are gone when it ends.
inside() {
	# shellcheck disable=SC2016
	unshare --mount bash -euc '
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		for folder in ${BIND:-}; do
			mkdir -p "$1$folder"
			mount --bind "$folder" "$1$folder"
		done
		cd /
		exec env -u PYTHONPATH -u VIRTUAL_ENV -u TMPDIR HOME=/root \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			chroot "$1" bash -euc "cd /root/vmcu; $2" </dev/null
	' - "$SYSTEM" "$1"
}

megabytes() {
	du -sm "$SYSTEM" | cut -f 1
}

# try COMMAND: what it prints is in the file OUTPUT, too.
try() {
	local before start=$SECONDS code=0

	before=$(megabytes)
	say "$1"
	inside "$1" 2>&1 | tee "$OUTPUT" || code=$?
	[ $code -eq 0 ] || FAILED=1
	say "$1: exit code $code, $((SECONDS - start)) s, $(($(megabytes) - before)) MB"
}

# What is indented below the line that ends with a colon, without comments.
next_steps() {
	sed -n '/^Next.*:$/,$s/^    //p' "$1"
}

[ -d "$SYSTEM/usr" ] || make_system
[ -d "$SYSTEM/root/vmcu" ] || git clone -q "$ROOT" "$SYSTEM/root/vmcu"
OUTPUT=$(mktemp)
trap 'rm -f "$OUTPUT"' EXIT
say "$(sed -n 's/^PRETTY_NAME=//p' "$SYSTEM/etc/os-release"), $(megabytes) MB, commit $(git -C "$ROOT" rev-parse --short HEAD)"
[ $# -gt 0 ] || set -- "./demo -y"
for command in "$@"; do
	try "$command"
	mapfile -t steps < <(next_steps "$OUTPUT")
	for step in "${steps[@]}"; do
		try "$step"
	done
done
exit $FAILED
