#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts the file COMMENT on pull request NUMBER, in place of what an earlier run said of MODEL.

set -euo pipefail

[ -s "${COMMENT:-}" ] || exit 0
mark="<!-- vmcu check $(printf '%s' "$MODEL" | sha256sum | cut -c1-16) -->"
body=$(printf '%s\n%s' "$mark" "$(cat "$COMMENT")")
known=$(MARK=$mark gh api --paginate "repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments" \
	--jq '.[] | select(.body | startswith(env.MARK)) | .id' | head -n 1)
if [ -n "$known" ]; then
	gh api -X PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$known" -f body="$body" >/dev/null
else
	gh api -X POST "repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments" -f body="$body" >/dev/null
fi
