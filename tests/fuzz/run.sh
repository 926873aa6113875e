#!/bin/sh
# Runs all fuzzers one after the other, even if one fails. Status 1 if one of them found something.
# Usage: run.sh DIRECTORY SECONDS NAME...
# DIRECTORY holds the fuzzers fuzz_NAME. Inputs that fail go to DIRECTORY/artifacts/NAME, inputs
# that reach new code to DIRECTORY/corpus/NAME. libFuzzer chooses which of the inputs that reach new
# code are worth adding to the tree:
#     DIRECTORY/fuzz_NAME -set_cover_merge=1 -use_counters=0 -max_len=1200 \
#         tests/fuzz/corpus/NAME DIRECTORY/corpus/NAME
set -eu

dir=$1
seconds=$2
shift 2
found=
for name; do
    mkdir -p "$dir/artifacts/$name" "$dir/corpus/$name"
    log=$dir/$name.log
    status=0
    # An input that exceeds -timeout or -rss_limit_mb is a finding, too: a few KB must not cost so
    # much.
    timeout -k 10 $((seconds + 120)) nice -n 19 "$dir/fuzz_$name" -max_total_time="$seconds" \
        -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$dir/artifacts/$name/" "$dir/corpus/$name" "tests/fuzz/corpus/$name" \
        >"$log" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "ok    $name (${runs:-0} inputs)"
    else
        tail -n 60 "$log"
        echo "FAIL  $name (status $status; $log, $dir/artifacts/$name)"
        found="$found $name"
    fi
done
[ -z "$found" ]
