#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# usage: tests/golden/check.sh EMIT
#
# Two profiles are made by hand. Their encoded forms are compared with texts written by hand, and
# other programs read them: python3 the JSON, jeprof the heap profiles, Go's pprof the pprof
# profiles. EMIT is the program built from emit.c. Needs python3, jeprof and go (Debian: python3,
# libjemalloc-dev, golang-go).
#
# The numbers, with R = 524288 and, for small z, 1/p = R/z + 1/2 and z/p = R + z/2:
#   exact    cache_insert 4 x 4096 = 16384, parse 10 x 100 = 1000 live of 25, scratch 0 live of 5
#   sampled  parse        4 of 16 bytes: 4 (R + 8) = 2097184 in 4 x 32768.5 = 131074 objects
#            cache_insert 2 of 32 MiB, p = 1: 67108864 in 2
#            scratch      one of each: 524296 + 33554432 = 34078728 in 32769.5
#            together     103284776 = 197.0 R in 163845.5
# Intervals in sampled.table: parse is Garwood's for 4 events, [1.0899, 10.2416] R; the others have
# variances of R^2 (scratch) and 5 R^2 (all), so 65 + 1 + 1.96 sqrt(2) = 68.8 R = 34.4 MiB,
# 197 - 1.96 sqrt(5) = 192.6 R = 96.3 MiB and 197 + 1 + 1.96 sqrt(6) = 202.8 R = 101.4 MiB; scratch
# has its sampled 32 MiB for a lower bound.
set -eu

if [ $# -ne 1 ]; then
	echo "usage: $0 EMIT" >&2
	exit 2
fi
emit=$1
here=$(dirname "$0")

need() {
	if ! command -v "$1" >/dev/null; then
		echo "golden: $1 is missing; install the Debian package $2" >&2
		exit 1
	fi
}
need python3 python3
need jeprof libjemalloc-dev
need google-pprof google-perftools
need go golang-go

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
export JEPROF_TMPDIR="$temp"

for golden in exact.heap exact.symbolized exact.collapsed exact.objects exact.allocated \
	exact.freed exact.growth exact.thread exact.process exact.module exact.table \
	sampled.collapsed sampled.table; do
	"$emit" "${golden%.*}" "${golden#*.}" >"$temp/$golden"
	if ! diff -u "$here/$golden" "$temp/$golden"; then
		echo "golden: $golden differs from what was written by hand" >&2
		exit 1
	fi
done

for profile in exact sampled; do
	"$emit" "$profile" json >"$temp/$profile.json"
done
"$emit" sampled modules >"$temp/modules.json"
python3 - "$temp/exact.json" "$temp/sampled.json" "$temp/modules.json" <<'PYTHON'
import json
import sys


def read(path):
    with open(path, encoding="utf-8") as file:  # strict: invalid UTF-8 raises
        text = file.read()
    assert text.endswith("}\n") and text.count("\n") == 1, "one line"
    return json.loads(text, parse_constant=lambda name: sys.exit(name + " is no JSON"))


def near(value, expected, relative):
    assert abs(value - expected) <= relative * expected, (value, expected)


keys = """version what pid comm duration_s mode interval_bytes alloc_calls free_calls samples
live_bytes live_bytes_low live_bytes_high live_objects contradictions overhead_pct
stacks_complete_pct stacks lost probes files""".split()
stack_keys = """live_bytes live_bytes_low live_bytes_high live_objects alloc_bytes alloc_objects
frames""".split()

exact = read(sys.argv[1])
sampled = read(sys.argv[2])
for profile in exact, sampled:
    assert list(profile) == keys, list(profile)
    assert profile["pid"] == 4711 and profile["comm"] == "leaky"
    assert profile["lost"] == {"live_full": 0, "stacks_truncated": 3}
    assert profile["files"] == ["memtrace.4711.heap", "caf\ufffd \"1\"\n"]
    assert profile["probes"] == [dict(function="malloc", object="/usr/lib/libc.so.6", offset=4096,
                                      instruction="push %r12", emulated=True, kind="session")]
    assert profile["live_bytes"] == sum(s["live_bytes"] for s in profile["stacks"])
    for stack in profile["stacks"]:
        assert list(stack) == stack_keys, list(stack)
        assert stack["live_bytes_low"] <= stack["live_bytes"] <= stack["live_bytes_high"]

assert (exact["live_bytes"], exact["live_objects"]) == (17384, 14)
assert exact["live_bytes_low"] == exact["live_bytes_high"] == 17384
assert [s["alloc_objects"] for s in exact["stacks"]] == [4, 25]
assert exact["stacks"][1]["frames"] == ["malloc", "parse", "main", "leaky+0x6010"]

assert sampled["live_bytes"] == 103284776
near(sampled["live_objects"], 163845.5, 1e-5)
assert [s["live_bytes"] for s in sampled["stacks"]] == [67108864, 34078728, 2097184]
parse = sampled["stacks"][2]
near(parse["live_bytes_low"], 1.089865 * 524288, 1e-4)
near(parse["live_bytes_high"], 10.24159 * 524288, 1e-4)
assert sampled["stacks"][0]["live_bytes_low"] == 67108864

told = read(sys.argv[3])
assert list(told) == keys[:-1] + ["snapshots", "modules", "files"], list(told)
assert told["snapshots"] == ["memtrace.4711.heap"] and told["files"] == ["caf\ufffd \"1\"\n"]
components = [(m["component"], m["live_bytes"], m["stacks"]) for m in told["modules"]]
assert components == [("cache", 67108864, 1), ('cache/"entries"', 67108864, 1),
                      ("rest", 34078728, 1), (None, 2097184, 1)], components
for m in told["modules"]:
    assert m["live_bytes_low"] <= m["live_bytes"] <= m["live_bytes_high"], m
assert told["modules"][3]["live_bytes_high"] == parse["live_bytes_high"]
PYTHON

# jeprof_total PROFILE OPTION: the total that jeprof makes of the heap profile.
jeprof_total() {
	{ "$emit" "$1" symbols && "$emit" "$1" heap; } >"$temp/$1.symbolized"
	if ! jeprof --text --show_bytes "$2" "$temp/$1.symbolized" >"$temp/text" \
		2>"$temp/errors"; then
		cat "$temp/errors" >&2
		exit 1
	fi
	sed -n 's/^Total: \([0-9]*\) .*/\1/p' "$temp/text"
}

# expect PROFILE OPTION NUMBER TOLERANCE: jeprof must read NUMBER, with an error of TOLERANCE parts
# in a thousand at most.
expect() {
	total=$(jeprof_total "$1" "$2")
	difference=$((${total:-0} - $3))
	if [ $((${difference#-} * 1000)) -gt $(($3 * $4)) ]; then
		echo "golden: jeprof reads $1 $2 as ${total:-nothing}, not $3" >&2
		exit 1
	fi
}
expect exact --inuse_space 17384 0
expect exact --inuse_objects 14 0
expect exact --alloc_space 19204 0
expect exact --alloc_objects 34 0
expect sampled --inuse_space 103284776 5
expect sampled --inuse_objects 163845 5
expect sampled --alloc_space 103284776 5

# The same for heap profiles that contain names, with both tools that read them. The binary
# /usr/bin/leaky does not exist, so the names must come from the profile.
for profile in exact sampled; do
	"$emit" "$profile" symbolized >"$temp/$profile.own"
	for reader in jeprof google-pprof; do
		for option in --inuse_space --inuse_objects --alloc_space; do
			# a failure shows in the comparison below
			"$reader" --text --show_bytes "$option" "$temp/$profile.own" \
				2>"$temp/errors" >"$temp/$reader$option" || true
			jeprof --text --show_bytes "$option" "$temp/$profile.symbolized" \
				2>/dev/null >"$temp/wanted"
			grep -q 'cache_insert$' "$temp/wanted"
			if ! diff -u "$temp/wanted" "$temp/$reader$option"; then
				cat "$temp/errors" >&2
				echo "golden: $reader $option reads the symbolized form of" \
					"$profile otherwise" >&2
				exit 1
			fi
		done
	done
done

# The collapsed stacks of other weights are the same as jeprof's.
for weight in objects:--inuse_objects allocated:--alloc_space; do
	jeprof --collapsed "${weight#*:}" "$temp/exact.own" 2>"$temp/errors" | grep -v ' 0$' |
		LC_ALL=C sort >"$temp/theirs"
	diff -u "$here/exact.${weight%:*}" "$temp/theirs"
done

# jeprof's collapsed stacks are the same as ours, except that jeprof also lists stacks that hold
# nothing.
for profile in exact sampled; do
	jeprof --collapsed "$temp/$profile.symbolized" 2>"$temp/errors" | grep -v ' 0$' |
		LC_ALL=C sort >"$temp/theirs"
	"$emit" "$profile" collapsed >"$temp/ours"
	python3 - "$temp/ours" "$temp/theirs" <<'PYTHON'
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return dict((names, int(n)) for names, n in (line.rsplit(" ", 1) for line in file))


ours, theirs = read(sys.argv[1]), read(sys.argv[2])
assert ours.keys() == theirs.keys(), (ours, theirs)
for names, number in ours.items():
    assert abs(number - theirs[names]) <= 0.005 * number, (names, number, theirs[names])
PYTHON
done
# pprof shows the same totals and the same functions. pprof leaves the allocator's own frames out,
# as jeprof does.
export PPROF_TMPDIR="$temp" HOME="$temp"
pprof() {
	go tool pprof -symbolize=none "$@" 2>"$temp/errors" || {
		cat "$temp/errors" >&2
		exit 1
	}
}
# expect_pprof PROFILE INDEX NUMBER ROW...: NUMBER is the total, each ROW is "BYTES FUNCTION".
expect_pprof() {
	pprof -top -unit=B -sample_index="$2" "$temp/$1.pb.gz" >"$temp/top"
	total=$(sed -n 's/^Showing nodes accounting for .* of \([0-9]*\)B\{0,1\} total$/\1/p' \
		"$temp/top")
	if [ "$total" != "$3" ]; then
		echo "golden: pprof reads $1 $2 as ${total:-nothing}, not $3" >&2
		exit 1
	fi
	shift 3
	for row; do
		awk '$1 !~ /^0/ && $6 { print $1, $6 }' "$temp/top" | grep -qx "$row" || {
			cat "$temp/top" >&2
			echo "golden: pprof has no row $row" >&2
			exit 1
		}
	done
}
for profile in exact sampled; do
	"$emit" "$profile" pprof >"$temp/$profile.pb.gz"
	pprof -comments "$temp/$profile.pb.gz" >"$temp/comments"
	for comment in 'what: heap' 'mode: continuous' 'pid: 4711' 'overhead_pct: 2.1' \
		'lost_stacks_truncated: 3'; do
		grep -qx "$comment" "$temp/comments" || {
			echo "golden: pprof shows no comment $comment" >&2
			exit 1
		}
	done
	pprof -tags "$temp/$profile.pb.gz" >"$temp/tags"
	for tag in comm thread tid pid bytes; do
		grep -q "^ *$tag: Total " "$temp/tags" || {
			echo "golden: pprof shows no label $tag" >&2
			exit 1
		}
	done
done
# Profiles can be compared although only one of them has figures of growth.
pprof -top -diff_base "$temp/sampled.pb.gz" "$temp/exact.pb.gz" >/dev/null
expect_pprof exact inuse_space 17384 '16384B cache_insert' '1000B parse'
expect_pprof exact inuse_objects 14
expect_pprof exact alloc_space 19204 '2500B parse' '320B scratch'
expect_pprof exact alloc_objects 34
expect_pprof sampled inuse_space 103284776 '67108864B cache_insert' '34078728B scratch' \
	'2097184B parse'
expect_pprof sampled inuse_objects 163846 # the exact number is 163845.5 and a little
expect_pprof sampled inuse_samples 8
echo "golden: formats read back as written"
