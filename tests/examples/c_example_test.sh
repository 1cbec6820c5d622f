#!/usr/bin/env bash
# The C example checks its own sums; here it runs alone and as a job of two. Arguments: the launcher, the example.
set -euo pipefail
launcher=$1
example=$2

expect() {
  local output=$1 line=$2
  [[ "$output" == *"$line"* ]] || {
    printf 'the example did not print "%s" but:\n%s\n' "$line" "$output" >&2
    exit 1
  }
}

expect "$("$example")" "rank 0 of 1: average 0, gathered 0 rows"

output=$("$launcher" run -np 2 --state-dir "$TEST_TMPDIR/state" "$PWD/$example")
expect "$output" "rank 0 of 2: average 0.5, gathered 1 rows"
expect "$output" "rank 1 of 2: average 0.5, gathered 1 rows"
