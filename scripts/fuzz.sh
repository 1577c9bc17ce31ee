#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other; the first that finds
# something ends it, and Go has put the input into testdata/fuzz.
# Usage: scripts/fuzz.sh [TIME [TARGET...]]     TIME as in 20s, the default
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:-20s}
[ $# -eq 0 ] || shift
ran=0 inputs=0

# Go 1.26 may call the end of the time itself a failure, without an input to show
# (golang/go#75804, mended in 1.27). Nothing else is let through.
time_was_up() {
	case $1 in *"Failing input written"* | *panic* | *"build failed"*) return 1 ;; esac
	[ "$(echo "$1" | grep -A 1 -- '^--- FAIL: Fuzz' | tail -n 1 | tr -d ' ')" = contextdeadlineexceeded ]
}

for package in ./idem ./fsm ./cluster ./httpapi ./httpapi/plainhttp ./cmd/onced; do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		if [ $# -gt 0 ]; then
			case " $* " in *" $target "*) ;; *) continue ;; esac
		fi
		# Minimising one input can take longer than all the rest: one try. Two
		# workers, however many processors: other steps may run beside this.
		if ! out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x -parallel 2 "$package" 2>&1) &&
			! time_was_up "$out"; then
			echo "$out"
			echo "$package $target: FOUND something" >&2
			exit 1
		fi
		execs=$(echo "$out" | sed -n 's/^fuzz: elapsed.*execs: \([0-9]*\).*/\1/p' | tail -n 1)
		echo "$package $target: ${execs:-0} inputs, nothing found"
		ran=$((ran + 1)) inputs=$((inputs + ${execs:-0}))
	done
done
echo "$ran fuzz targets, $time each: $inputs inputs"
[ "$ran" -gt 0 ]
