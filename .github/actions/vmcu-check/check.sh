#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs `vmcu check` as the variables say: MODEL, MAX_RAM, MAX_FLASH, MAX_CYCLES, BASELINE, TOLERANCE,
# and OPTIONS, a line each. Its exit code is the step's.

set -euo pipefail

folder=${RUNNER_TEMP:-$(mktemp -d)}/vmcu-check
mkdir -p "$folder"
words=()

# option NAME VALUE: nothing where there is no value.
option() {
	[ -z "$2" ] || words+=("$1" "$2")
}

option --max-ram "${MAX_RAM:-}"
option --max-flash "${MAX_FLASH:-}"
option --max-cycles "${MAX_CYCLES:-}"
option --baseline "${BASELINE:-}"
option --tolerance "${TOLERANCE:-}"
while IFS= read -r line; do
	[ -z "$line" ] || words+=("$line")
done <<<"${OPTIONS:-}"

{
	echo "junit=$folder/junit.xml"
	echo "report=$folder/report.json"
	echo "comment=$folder/comment.md"
} >>"${GITHUB_OUTPUT:-/dev/null}"
rm -f "$folder"/*

status=0
python -m vmcu_tools check "$MODEL" "${words[@]}" --junit "$folder/junit.xml" \
	--json "$folder/report.json" --markdown "$folder/comment.md" 2>"$folder/error" || status=$?
cat "$folder/error" >&2
if [ ! -e "$folder/comment.md" ]; then
	{
		printf '### vmcu: no answer\n\n```\n'
		cat "$folder/error"
		printf '```\n'
	} >"$folder/comment.md"
fi
cat "$folder/comment.md" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
exit $status
