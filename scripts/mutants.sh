#!/usr/bin/env bash
# Builds the product without one safeguard at a time (build tag mutant_NAME) and
# shows which test fails then. A mutant that no test catches, or that does not
# build, is a failure: the safeguard it takes out would be held by nothing.
# Usage: scripts/mutants.sh [NAME...]
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# name, package, the tests that are to catch it, what it leaves out
mutants() {
	cat <<'LIST'
fastpath   ./cluster TestB01              heartbeats past raft's main loop (hashicorp/raft#695)
readfence  ./cluster TestB66              reads that do not wait for an entry of their own
await      ./cluster TestAwait            waiting for a future that raft never answers (hashicorp/raft#498)
onedelete  ./cluster TestLogStoreDelete   a log compacted in one transaction
nowatchdog ./cluster TestB04|Stall        no end of the process when the disk hangs (hashicorp/raft#503)
nocrc      ./cluster TestB29|Flip         stored entries without their checksum
nomarker   ./cluster TestB09              an emptied raft.db taken for a new node
shorttrail ./cluster TestDamagedNewest    too little log behind a damaged snapshot
LIST
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
began=$SECONDS total=0 caught=0
while read -r name package tests what; do
	if [ $# -gt 0 ]; then
		case " $* " in *" $name "*) ;; *) continue ;; esac
	fi
	total=$((total + 1))
	since=$SECONDS
	if ! go test -tags "mutant_$name" -count=1 -run '^$' "$package" >"$log" 2>&1; then
		echo "$name: DOES NOT BUILD"
		tail -n 5 "$log"
		continue
	fi
	if go test -tags "mutant_$name" -count=1 -timeout 120s -run "$tests" "$package" >"$log" 2>&1; then
		echo "$name: NOT CAUGHT by $tests ($what)"
		continue
	fi
	by=$(sed -n 's/^ *--- FAIL: \([^ ]*\).*/\1/p; s/^panic: test timed out.*/a test that hangs/p; s/^panic: .*/a panic/p' "$log" | head -n 1)
	if [ -z "$by" ]; then
		echo "$name: NOT CAUGHT: the tests did not end as tests do"
		tail -n 5 "$log"
		continue
	fi
	caught=$((caught + 1))
	echo "$name: caught by $by in $((SECONDS - since)) s ($what)"
done < <(mutants)
echo "$caught of $total mutants caught in $((SECONDS - began)) s"
[ "$total" -gt 0 ] && [ "$caught" -eq "$total" ]
